// A run's page. What is shown comes from one place, `data-changes`, asked again on every sign that
// something moved and, since signs get lost, now and then without one. So no single message counts.
import { listen } from "./socket.js";
import { showReport } from "./report.js";
import { showTimes } from "./times.js";

const WITHOUT_SOCKET = 3000;
const SAFETY_NET = 20_000;
const PATIENCE = 10_000;

const run = document.getElementById("run");
const said = document.getElementById("run-said");
const away = document.getElementById("run-away");
const part = (name) => run.querySelector(`[data-part="${name}"]`);

let seq = Number(run.dataset.seq);
let live = run.dataset.live === "yes";
let asking = false;
let askAgain = false;
let asked = Date.now();
let unanswered = 0;

function put(place, html) {
  if (place.innerHTML.trim() !== html.trim()) place.innerHTML = html;
  showTimes(place);
}

// The gauge is redrawn often: a person who has its button in focus keeps it.
function putGauge(html) {
  const held = part("gauge").contains(document.activeElement);
  part("gauge").innerHTML = html;
  startClock();
  if (held) part("gauge").querySelector("button:not(:disabled)")?.focus();
}

function addEvents(html) {
  const arrived = document.createElement("template");
  arrived.innerHTML = html;
  for (const event of arrived.content.querySelectorAll(".event")) {
    if (Number(event.dataset.seq) <= seq) continue;
    event.classList.add("new");
    part("events").append(event);
    showTimes(event);
  }
}

function apply(changes) {
  document.title = changes.title;
  put(part("head"), changes.head);
  if (changes.live) {
    putGauge(changes.gauge);
    addEvents(changes.events);
    if (said.textContent !== changes.said) said.textContent = changes.said;
    seq = Math.max(seq, changes.seq);
    return;
  }
  live = false;
  stopClock();
  document.getElementById("stop-dialog")?.close();
  put(part("body"), changes.body);
  said.textContent = changes.status === "completed" ? "The report is here." : "The run has ended.";
  showReport(run);
}

async function ask() {
  if (!live) return;
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  asked = Date.now();
  try {
    const answer = await fetch(`${run.dataset.changes}?after=${seq}`, {
      headers: { accept: "application/json" },
      signal: AbortSignal.timeout(PATIENCE),
    });
    unanswered = answer.status >= 500 ? unanswered + 1 : 0;
    if (answer.redirected || answer.status === 404) location.reload(); // logged out, or deleted
    else if (answer.ok) apply(await answer.json());
  } catch {
    unanswered += 1; // no network: the next sign or tick asks again
  }
  showWhetherAway();
  asking = false;
  if (askAgain) {
    askAgain = false;
    ask();
  }
}

// One lost answer is nothing to tell. The run goes on without us, so it only says that this page is behind.
function showWhetherAway() {
  const text = unanswered >= 2 ? away.dataset.text : "";
  if (away.textContent !== text) away.textContent = text;
}

// The clock ticks here; the server says where it stands.
let ticking;
function startClock() {
  stopClock();
  const clock = part("gauge")?.querySelector("[data-elapsed]");
  if (!clock) return;
  const expect = part("gauge").querySelector("[data-expect]");
  const bar = part("gauge").querySelector("[data-bar]");
  const began = performance.now() - Number(clock.dataset.elapsed) * 1000;
  const tick = () => {
    const seconds = (performance.now() - began) / 1000;
    clock.textContent = stopwatch(seconds);
    if (bar) bar.value = seconds;
    if (seconds <= Number(expect.dataset.usual)) return;
    bar?.classList.add("over");
    expect.textContent = expect.dataset.over;
  };
  tick();
  ticking = setInterval(tick, 1000);
}

function stopClock() {
  clearInterval(ticking);
}

function stopwatch(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (count) => String(count).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// Stopping without leaving the page; without script the form does the same.
document.addEventListener("submit", async (event) => {
  if (event.target.id !== "stop-form") return;
  event.preventDefault();
  document.getElementById("stop-dialog").close();
  try {
    await fetch(event.target.action, { method: "POST", body: new FormData(event.target), redirect: "manual" });
  } finally {
    ask();
  }
});

if (live) {
  startClock();
  const isUp = listen((event) => {
    if (event.type === "run" && event.id === run.dataset.run && (event.seq > seq || event.state !== "in_progress")) ask();
  }, ask);
  setInterval(() => {
    if (Date.now() - asked >= (isUp() ? SAFETY_NET : WITHOUT_SOCKET)) ask();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) ask();
  });
} else {
  showReport(run);
}
