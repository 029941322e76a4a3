// The chat's page. As on a run's page, what is shown comes from one place, `data-changes`, asked again on
// every sign that something moved and, since signs get lost, now and then without one.
import { listen } from "./socket.js";
import { showTimes } from "./times.js";
import { compose } from "./compose.js";
import { dress, renew } from "./turn.js";
import "./report.js";

const WITHOUT_SOCKET = 700;
const SAFETY_NET = 5000;

const chat = document.getElementById("chat");
const thread = document.getElementById("thread");
const said = document.getElementById("chat-said");
const toEndButton = document.getElementById("to-end");

let mark = chat.dataset.mark ?? "";
let live = chat.dataset.live === "yes";
let asking = false;
let askAgain = false;
let asked = Date.now();

const form = compose({ onAsked: apply, isLive: () => live, stop, look: ask });

// Whoever reads the end goes on reading the end.
function isAtEnd() {
  const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
  return scrollHeight - scrollTop - clientHeight < 120;
}

function toEnd() {
  scrollTo({ top: document.documentElement.scrollHeight });
}

function showWayToEnd() {
  if (toEndButton) toEndButton.hidden = isAtEnd();
}

function apply(told) {
  if (told.url && !thread) {
    location.assign(told.url);
    return;
  }
  const wasLive = live;
  mark = told.mark;
  live = told.live;
  form.setLive(live);
  if (!told.html) return;
  const arrived = document.createElement("template");
  arrived.innerHTML = told.html;
  const turn = arrived.content.querySelector(".turn");
  const there = document.getElementById(turn.id);
  const follows = isAtEnd() || !there;
  if (there) renew(there, turn);
  else thread.append(turn);
  const shown = document.getElementById(turn.id);
  dress(shown);
  showTimes(shown);
  form.setLeft(told.left, told.left_words);
  if (said.textContent !== told.said && (!live || !wasLive)) said.textContent = told.said;
  if (follows) toEnd();
  showWayToEnd();
}

async function ask() {
  if (!chat.dataset.changes) return;
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  asked = Date.now();
  try {
    const answer = await fetch(`${chat.dataset.changes}?after=${mark}`, { headers: { accept: "application/json" } });
    if (answer.redirected || answer.status === 404) form.leave(answer);
    else if (answer.ok) apply(await answer.json());
  } catch {
    // No network: the next sign or tick asks again.
  }
  asking = false;
  if (askAgain) {
    askAgain = false;
    ask();
  }
}

async function stop(stopForm) {
  try {
    await fetch(stopForm.action, { method: "POST", body: new FormData(stopForm), redirect: "manual" });
  } finally {
    ask();
  }
}

// Chats stand beside the talk where there is room, else they are folded above it.
function foldHistory() {
  const history = document.querySelector("[data-history]");
  const wide = matchMedia("(min-width: 60rem)");
  const fit = () => { history.open = wide.matches; };
  wide.addEventListener("change", fit);
  fit();
  history.querySelector("summary").addEventListener("click", (event) => {
    if (wide.matches) event.preventDefault();
  });
}

foldHistory();
if (thread) {
  for (const turn of thread.children) dress(turn);
  toEnd();
  toEndButton.addEventListener("click", toEnd);
  addEventListener("scroll", showWayToEnd, { passive: true });
  const isUp = listen((event) => {
    if (event.type === "chat" && event.id === chat.dataset.chat) ask();
  }, ask);
  setInterval(() => {
    if (live && Date.now() - asked >= (isUp() ? SAFETY_NET : WITHOUT_SOCKET)) ask();
  }, 350);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) ask();
  });
}
