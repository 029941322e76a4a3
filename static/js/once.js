// What is shown once: reloading its page opens the list instead of making another.

const made = document.querySelector("[data-back]");
if (made) {
  history.replaceState(null, "", made.dataset.back);
  made.querySelector("h2").focus();
}
