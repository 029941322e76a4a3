// The library while one types: the page's own address is asked, and its results put in place.
import { showTimes } from "./times.js";

const PAUSE = 250;
const form = document.getElementById("looking");
const said = document.getElementById("library-said");
let waiting;
let latest = 0;

document.getElementById("zone").value ||= Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";

function address() {
  const values = new FormData(form);
  if (!values.get("since") && !values.get("until")) values.delete("zone");
  const query = new URLSearchParams([...values].filter(([, value]) => value !== ""));
  return query.size ? `${form.action}?${query}` : form.action;
}

function tell(results) {
  const count = Number(results.dataset.count);
  const more = results.dataset.more === undefined ? "" : " and more";
  said.textContent = count ? `${count}${more} found.` : "Nothing found.";
}

async function look() {
  clearTimeout(waiting);
  const turn = ++latest;
  const there = address();
  const results = document.getElementById("library-results");
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(there, { headers: { Accept: "text/html" } });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = found.getElementById("library-results");
    if (turn !== latest) return;
    if (!answer.ok || !fresh) throw new Error("not a page of the library");
    results.replaceWith(fresh);
    document.getElementById("without-filters").replaceWith(found.getElementById("without-filters"));
    showTimes(fresh);
    document.title = found.title;
    history.replaceState(null, "", there);
    tell(fresh);
  } catch {
    if (turn === latest) location.assign(there);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});
form.addEventListener("input", (event) => {
  if (event.target.type !== "search" || event.isComposing) return;
  clearTimeout(waiting);
  waiting = setTimeout(look, PAUSE);
});
form.addEventListener("change", (event) => {
  if (event.target.type !== "search") look();
});
