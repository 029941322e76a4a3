// The report: cards on its citation marks, contents that follow the reading, folded on a phone.

const card = () => document.getElementById("cite-card");
let held; // the mark whose card is open
let leaving;

function entry(number) {
  return document.getElementById(`source-${number}`);
}

function line(tag, className, text) {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  element.dir = "auto";
  return element;
}

function open(mark) {
  clearTimeout(leaving);
  const source = entry(mark.dataset.source);
  if (!source || held === mark) return;
  close();
  held = mark;
  const parts = [source.querySelector(".title").cloneNode(true),
    line("span", "host", source.querySelector(".host").textContent)];
  const snippet = source.querySelector(".snippet");
  if (snippet) parts.push(line("p", "", snippet.textContent));
  card().replaceChildren(...parts);
  card().showPopover();
  place(mark);
  source.classList.add("pointed");
}

function place(mark) {
  const [from, size] = [mark.getBoundingClientRect(), card().getBoundingClientRect()];
  const edge = 16;
  const left = Math.min(Math.max(from.left + from.width / 2 - size.width / 2, edge), innerWidth - size.width - edge);
  const above = from.top - size.height - 8;
  card().style.left = `${left}px`;
  card().style.top = `${above > edge ? above : from.bottom + 8}px`;
}

function close() {
  if (!held) return;
  entry(held.dataset.source)?.classList.remove("pointed");
  held = undefined;
  if (card()?.matches(":popover-open")) card().hidePopover();
}

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(close, 150);
}

const markOf = (event) => event.target.closest?.(".cites a");

document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "touch") return;
  if (markOf(event)) open(markOf(event));
  else if (event.target.closest?.(".cite-card")) clearTimeout(leaving);
  else if (held) leave();
});
document.addEventListener("focusin", (event) => (markOf(event) ? open(markOf(event)) : close()));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});
document.addEventListener("pointerdown", (event) => {
  if (!markOf(event) && !event.target.closest?.(".cite-card")) close();
});
addEventListener("scroll", () => {
  if (held) place(held);
}, { passive: true });

// A click does not cost the reader's place: sources that stand beside the text are pointed at there,
// and a finger gets the card. By keyboard the mark is the link it says it is.
document.addEventListener("click", (event) => {
  const mark = markOf(event);
  const source = mark && entry(mark.dataset.source);
  if (!source || !event.detail) return;
  const beside = matchMedia("(min-width: 60rem)").matches;
  if (!beside && !matchMedia("(hover: none)").matches) return;
  event.preventDefault();
  open(mark);
  if (beside) source.scrollIntoView({ block: "nearest" });
});

// Where the reader is: the last heading above the upper third of the window.
function follow(run) {
  const links = new Map();
  for (const link of run.querySelectorAll(".contents a")) {
    const heading = document.getElementById(link.hash.slice(1));
    if (heading) links.set(heading, link);
  }
  if (!links.size) return;
  const headings = [...links.keys()];
  const mark = () => {
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < innerHeight / 3);
    const current = passed.at(-1) ?? headings[0];
    for (const [heading, link] of links) {
      if (heading === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

// Contents stand beside the text where there is room, else they are folded above it.
function foldContents(run) {
  const contents = run.querySelector("[data-contents]");
  if (!contents) return;
  const wide = matchMedia("(min-width: 78rem)");
  const fit = () => { contents.open = wide.matches; };
  wide.addEventListener("change", fit);
  fit();
  contents.querySelector("summary").addEventListener("click", (event) => {
    if (wide.matches) event.preventDefault();
  });
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && !wide.matches) contents.open = false;
  });
}

export function showReport(run) {
  follow(run);
  foldContents(run);
}
