// Moments in the reader's own zone and, where they are recent, as "5 minutes ago".

const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const UNITS = [["minute", 60], ["hour", 3600], ["day", 86400]];

function shown(moment, style) {
  if (style === "clock") return clock.format(moment);
  if (style === "full") return full.format(moment);
  const seconds = (Date.now() - moment) / 1000;
  if (Math.abs(seconds) < 45) return "just now";
  if (Math.abs(seconds) > 14 * 86400) return day.format(moment);
  const [unit, length] = UNITS.findLast(([, length]) => Math.abs(seconds) >= length * 0.75);
  return ago.format(-Math.round(seconds / length), unit);
}

export function showTimes(within = document) {
  for (const time of within.querySelectorAll("time[data-style]")) {
    const moment = new Date(time.dateTime);
    time.textContent = shown(moment, time.dataset.style);
    time.title = full.format(moment);
  }
}

showTimes();
setInterval(showTimes, 30_000);
