// The message box: Enter sends, Shift+Enter begins a line, and what cannot be sent is said before.

const WAIT_AT_MOST = 60_000;
const LOGGED_OUT = "You are logged out. Copy what you wrote, and log in again.";
// What an answer that is a page says, by its status.
const PAGES = {
  403: "You have logged in anew meanwhile. Copy what you wrote, and load this page again.",
  404: "This chat is not there any more: it was deleted. Copy what you wrote into a new one.",
};
const BROKEN = "The portal could not take it. What you wrote is still here: send it again in a moment.";
const form = document.getElementById("chat-form");
const message = document.getElementById("message");
const model = document.getElementById("model");
const send = document.getElementById("send-button");
const stopButton = document.getElementById("stop-button");
const problem = document.getElementById("chat-problem");
const tooLong = document.getElementById("too-long");
const whyNot = document.getElementById("why-not");
const thinking = document.getElementById("thinking-tick");

let sending = false;
let isLive = false;
let waitsForTheLast = false; // what was sent came while an answer was being written

function grow() {
  message.style.height = "auto";
  message.style.height = `${message.scrollHeight}px`;
}

function weigh() {
  const chosen = model.selectedOptions[0];
  const short = chosen !== undefined && Number(chosen.dataset.price) > Number(form.dataset.left);
  const [length, longest] = [[...message.value].length, Number(form.dataset.longest)];
  if (chosen) {
    thinking.hidden = chosen.dataset.thinks === undefined;
    document.getElementById("cost").textContent = chosen.dataset.cost;
    document.getElementById("why-price").textContent = chosen.dataset.cost.replace(" an answer", "");
  }
  whyNot.hidden = !short;
  tooLong.hidden = length <= longest;
  tooLong.textContent = length > longest
    ? `${length.toLocaleString()} characters: at most ${longest.toLocaleString()} can be sent.` : "";
  send.disabled = short || length > longest || sending || !chosen || send.dataset.unready !== undefined;
}

function say(text, tone = "bad") {
  problem.className = `note ${tone}`;
  problem.querySelector("div").textContent = text;
  problem.hidden = !text;
}

const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

// One press asks once. While every session has its hands full, it is tried again for a minute.
async function post(address, fields) {
  const until = Date.now() + WAIT_AT_MOST;
  for (;;) {
    const answer = await fetch(address, { method: "POST", body: fields, headers: { accept: "application/json" } });
    if (answer.redirected) return [false, { message: LOGGED_OUT }]; // the log-in page speaks JSON as well
    const isJson = answer.headers.get("content-type")?.startsWith("application/json");
    if (!isJson) return [false, { message: PAGES[answer.status] ?? BROKEN }];
    const told = await answer.json();
    const wait = (told.retry_after ?? 0) * 1000;
    if (answer.status !== 503 || !wait || Date.now() + wait > until) return [answer.ok, told];
    say(`${told.message} It is sent again by itself.`, "warn");
    await pause(wait);
  }
}

// `onAsked` gets what the server tells of the new answer, `stop` the form that stops one, `look` fetches how it is.
export function compose({ onAsked, isLive: live, stop, look }) {
  isLive = live();

  async function ask(address, fields, whenSent) {
    if (sending) return;
    sending = true;
    weigh();
    say("");
    try {
      const [ok, told] = await post(address, fields);
      waitsForTheLast = told.code === "answering";
      say(ok ? "" : told.message);
      if (waitsForTheLast) look();
      if (ok) {
        whenSent();
        if (told.form) form.elements.form.value = told.form;
        onAsked(told);
      }
    } catch {
      say("The portal cannot be reached. What you wrote is still here: send it again.");
    }
    sending = false;
    weigh();
  }

  form.addEventListener("submit", (event) => {
    if (event.submitter === stopButton) return;
    event.preventDefault();
    if (!message.value.trim() || isLive || send.disabled) return;
    ask(form.action, new FormData(form), () => {
      message.value = "";
      grow();
    });
  });

  document.addEventListener("submit", (event) => {
    if (event.target.id === "stop-form") {
      event.preventDefault();
      stop(event.target);
    }
    if (event.target.matches("[data-again]")) {
      event.preventDefault();
      if (!isLive) ask(event.target.action, new FormData(event.target), () => event.target.remove());
    }
  });

  // In place of what is there, which Ctrl+Z brings back.
  function take(question) {
    message.focus();
    message.select();
    document.execCommand("insertText", false, question);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-take]");
    if (button) take(button.closest(".turn").querySelector(".asked").textContent);
  });

  form.addEventListener("keydown", (event) => {
    const asked = document.querySelectorAll(".asked");
    if (event.target === message && event.key === "ArrowUp" && !message.value && asked.length) {
      event.preventDefault();
      take(asked[asked.length - 1].textContent);
    }
    if (event.target !== message || event.key !== "Enter" || event.isComposing) return;
    // A finger's keyboard has no Shift+Enter: there Enter begins a line, and the button sends.
    const mayBreak = event.shiftKey || event.altKey || (matchMedia("(hover: none)").matches && !event.ctrlKey);
    if (mayBreak) return;
    event.preventDefault();
    form.requestSubmit(send);
  });

  message.addEventListener("input", () => {
    grow();
    weigh();
  });
  model.addEventListener("change", weigh);
  addEventListener("pageshow", () => {
    grow();
    weigh();
  });

  for (const example of document.querySelectorAll("[data-question]")) {
    example.addEventListener("click", (event) => {
      event.preventDefault();
      message.value = example.dataset.question;
      grow();
      weigh();
      message.focus();
    });
  }

  return {
    setLive(now) {
      const hadFocus = document.activeElement === stopButton || document.activeElement === send;
      isLive = now;
      if (!now && waitsForTheLast) {
        waitsForTheLast = false;
        say("");
      }
      stopButton.hidden = !now;
      send.hidden = now;
      if (hadFocus) message.focus();
    },
    // The page is no longer its reader's, or shows what is gone; what stands in the box is kept.
    leave(answer) {
      if (message.value.trim()) say(answer.redirected ? LOGGED_OUT : PAGES[404]);
      else location.reload();
    },
    setLeft(left, words) {
      form.dataset.left = left;
      for (const place of document.querySelectorAll("[data-left-words]")) place.textContent = words;
      weigh();
    },
  };
}
