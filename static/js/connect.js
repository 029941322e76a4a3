// Asks the MCP endpoint for its tools with a key that stays here.

const form = document.getElementById("probe");
const result = document.getElementById("probe-result");
const ASKED = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };

// The answer is JSON, or the last event of a stream.
function read(text) {
  const events = text.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return JSON.parse(events.length ? events.at(-1).slice(5) : text);
}

async function toolsFor(key) {
  const answer = await fetch("/mcp", {
    method: "POST",
    credentials: "omit",
    headers: {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
    },
    body: JSON.stringify(ASKED),
  });
  const { result: listed, error } = read(await answer.text());
  if (error) throw new Error(error.message ?? `The portal answered ${answer.status}.`);
  return listed.tools.map((tool) => tool.name);
}

function show(words, names = []) {
  const line = document.createElement("p");
  line.textContent = words;
  const list = document.createElement("ul");
  list.className = "tools-found";
  for (const name of names) {
    const item = list.appendChild(document.createElement("li"));
    item.appendChild(document.createElement("code")).textContent = name;
  }
  result.replaceChildren(line, ...(names.length ? [list] : []));
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  show("Asking …");
  try {
    const names = await toolsFor(document.getElementById("probe-key").value.trim());
    show(`It works: ${names.length} tools.`, names);
  } catch (problem) {
    show(`It does not work: ${problem.message}`);
  } finally {
    button.disabled = false;
  }
});
