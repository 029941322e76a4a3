// The question form: grows with the text, is sent by Ctrl+Enter, and knows what the credits allow.

const form = document.getElementById("ask-form");
const question = document.getElementById("question");
const files = document.getElementById("files");
const button = document.getElementById("ask-button");
const whyNot = document.getElementById("why-not");

function grow() {
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight}px`;
}

function weigh() {
  const chosen = form.querySelector("input[name=preset]:checked");
  if (chosen) document.getElementById("depth-about").textContent = chosen.dataset.about;
  const short = chosen !== null && Number(chosen.dataset.price) > Number(form.dataset.left);
  if (short) document.getElementById("why-price").textContent = chosen.dataset.cost;
  whyNot.hidden = !short;
  button.disabled = short;
  if (short) button.setAttribute("aria-describedby", "why-not");
  else button.removeAttribute("aria-describedby");
}

// What is too much is refused before it is sent: the portal would take none of it, the question included.
function weighFiles() {
  const { most, megabytes } = files.dataset;
  const size = [...files.files].reduce((sum, file) => sum + file.size, 0);
  const isTooMuch = files.files.length > Number(most) || size > Number(megabytes) * 2 ** 20;
  files.setCustomValidity(isTooMuch ? `Choose up to ${most} files, of ${megabytes} MB together.` : "");
}

question.addEventListener("input", grow);
files.addEventListener("change", () => {
  weighFiles();
  files.reportValidity();
});
form.addEventListener("change", weigh);
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !button.disabled) form.requestSubmit(button);
});

// One press is one run: the server would see to it, the person should too.
form.addEventListener("submit", () => {
  setTimeout(() => { button.disabled = true; }, 0);
});
addEventListener("pageshow", () => {
  weigh();
  weighFiles();
  grow();
});

for (const example of document.querySelectorAll("[data-question]")) {
  example.addEventListener("click", (event) => {
    event.preventDefault();
    question.value = example.dataset.question;
    grow();
    question.focus();
    scrollTo({ top: 0 });
  });
}
