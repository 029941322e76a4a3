// A new key is shown once: reloading its page opens the list instead of making another.

const made = document.getElementById("new-key");
if (made) {
  history.replaceState(null, "", made.dataset.back);
  document.getElementById("new-key-title").focus();
}
