// What every page does: times, the theme, dialogs, and copying.
import "./times.js";

const root = document.documentElement;
const ICONS = { auto: "auto", light: "sun", dark: "moon" };
const WORDS = { auto: "as the system", light: "light", dark: "dark" };

function showTheme(button) {
  const theme = root.dataset.theme;
  const use = button.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${ICONS[theme] ?? "auto"}`));
  button.setAttribute("aria-label", `Theme: ${WORDS[theme] ?? WORDS.auto}`);
}

for (const button of document.querySelectorAll("[data-theme-toggle]")) {
  showTheme(button);
  button.addEventListener("click", () => {
    const order = ["auto", "light", "dark"];
    root.dataset.theme = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    localStorage.setItem("theme", root.dataset.theme);
    showTheme(button);
  });
}

let toldUntil;
export function tell(text) {
  const told = document.getElementById("told");
  if (!told) return;
  told.textContent = text;
  told.hidden = false;
  clearTimeout(toldUntil);
  toldUntil = setTimeout(() => { told.hidden = true; }, 2500);
}

// The clipboard is closed to pages without TLS, as a portal in a home network may be.
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "out-of-sight";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not copied");
}

async function copyFrom(id) {
  const source = document.getElementById(id);
  try {
    await copy(source.value ?? source.textContent);
    tell("Copied");
  } catch {
    tell("Your browser does not allow copying here");
  }
}

// One listener for what is there now and what arrives later.
document.addEventListener("click", (event) => {
  const target = event.target.closest?.("[data-dialog], [data-close], [data-copy]");
  if (!target) return;
  if (target.dataset.copy) copyFrom(target.dataset.copy);
  if (target.dataset.close !== undefined) target.closest("dialog").close();
  if (target.dataset.dialog) {
    event.preventDefault();
    document.getElementById(target.dataset.dialog).showModal();
  }
});
