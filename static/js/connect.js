// Asks the MCP endpoint for its tools with a key that stays here.

const form = document.getElementById("probe");
const result = document.getElementById("probe-result");
const ASKED = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };

// The answer is JSON, or the last event of a stream; nothing for what is neither.
function read(text) {
  const events = text.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  try {
    return JSON.parse(events.length ? events.at(-1).slice(5) : text) ?? {};
  } catch {
    return {};
  }
}

function ask(key) {
  const headers = {
    Authorization: `Bearer ${key}`,
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  const options = { method: "POST", credentials: "omit", headers, body: JSON.stringify(ASKED) };
  return fetch("/mcp", options).catch(() => {
    throw new Error("The portal cannot be reached.");
  });
}

async function toolsFor(key) {
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Error("This is no key: copy the whole of it, without spaces.");
  const answer = await ask(key);
  const { result: listed, error } = read(await answer.text());
  if (!listed) throw new Error(error?.message ?? `The portal answered ${answer.status}.`);
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
