// One question and its answer: changed piece by piece as it grows, so that nobody loses their place in it.
import { copy, tell } from "./page.js";

function put(there, now) {
  there.hidden = now.hidden;
  if (there.innerHTML.trim() !== now.innerHTML.trim()) there.innerHTML = now.innerHTML;
}

// The text grows at its end: blocks that are the same stay, with what is selected in them.
function grow(there, now) {
  const blocks = [...now.children];
  blocks.forEach((block, place) => {
    const old = there.children[place];
    if (!old) there.append(block);
    else if (old.dataset.as !== block.outerHTML && old.outerHTML !== block.outerHTML) old.replaceWith(block);
  });
  while (there.children.length > blocks.length) there.lastElementChild.remove();
}

// `now` is the same turn as the server has it.
export function renew(there, now) {
  const part = (turn, name) => turn.querySelector(`[data-part="${name}"]`);
  there.dataset.live = now.dataset.live;
  part(there, "steps").hidden = part(now, "steps").hidden;
  for (const name of ["count", "lines", "state", "after"]) put(part(there, name), part(now, name));
  grow(part(there, "answer"), part(now, "answer"));
}

// Code gets a button that copies it.
export function dress(turn) {
  for (const code of turn.querySelectorAll(".answer > pre")) {
    const block = document.createElement("div");
    const button = document.createElement("button");
    block.className = "code";
    block.dataset.as = code.outerHTML;
    button.className = "button quiet small";
    button.type = "button";
    button.textContent = "Copy code";
    code.replaceWith(block);
    block.append(code, button);
    button.addEventListener("click", async () => {
      try {
        await copy(code.textContent);
        tell("Copied");
      } catch {
        tell("Your browser does not allow copying here");
      }
    });
  }
}
