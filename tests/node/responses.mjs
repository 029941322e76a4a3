// Each end of an answer at /v1/responses, by either engine: both SDKs have the same calls.
//
// tests/sdk/python.py plays the same scenarios by the Python SDKs, under the same names.

import { caught, collect, until, world } from "./world.mjs";

const UNKNOWN = `resp_${"0".repeat(32)}`;
const TERMINAL = ["completed", "failed", "incomplete", "cancelled"];
const TOOL = {
  type: "function",
  name: "lookup_inventory",
  description: "Stock of a SKU.",
  strict: true,
  parameters: {
    type: "object",
    properties: { sku: { type: "string", enum: ["DEMO"] } },
    required: ["sku"],
    additionalProperties: false,
  },
};
const ENGINES = {
  research: {
    asking: { preset: "2m" },
    queued: {},
    failing: "[sandbox:failed] Why?",
    breaking: "[sandbox:failed] Why?",
    lasting: "[sandbox:stuck] Why?",
  },
  chat: {
    asking: { model: "gpt" },
    queued: { background: true },
    failing: "[sandbox:web.invalid] Why?",
    breaking: "Why? [sandbox:cut-stream=12] [sandbox:pieces=12]",
    lasting: "Why? [sandbox:duration=30] [sandbox:pieces=300]",
  },
};

// `clientOf` makes a client of a key; `sdk` names it in idempotency keys.
export function responses(sdk, clientOf, engine) {
  const client = clientOf(world.key);
  const { asking, queued, failing, breaking, lasting } = ENGINES[engine];
  const ask = (by, input, more = {}, options = {}) => by.responses.create({ input, ...asking, ...more }, options);
  const end = (id) =>
    until(
      () => client.responses.retrieve(id),
      (seen) => TERMINAL.includes(seen.status),
    );
  const follow = async (input) => {
    const created = await ask(client, input, queued);
    return { created, done: await end(created.id) };
  };
  const stream = async (input) => {
    const events = await collect(await ask(client, input, { stream: true }));
    return { events, final: await client.responses.retrieve(events[0].response.id) };
  };
  const once = { headers: { "Idempotency-Key": `conflict-${sdk}-node-${engine}` } };
  const scenes = {
    completed: () => follow("Why is the sky blue?"),
    failed: () => follow(failing),
    cancelled: async () => {
      const created = await ask(client, lasting, queued);
      const stopping = await client.responses.cancel(created.id);
      return { created, stopping, done: await end(created.id) };
    },
    "stream completed": () => stream("Why is the sky blue?"),
    "stream failed": () => stream(breaking),
    "stream cancelled": async () => {
      const events = [];
      for await (const event of await ask(client, lasting, { ...queued, stream: true })) {
        if (event.type === "response.created") await client.responses.cancel(event.response.id);
        events.push(event);
      }
      return { events, final: await client.responses.retrieve(events[0].response.id) };
    },
    400: () => caught(() => ask(client, "")),
    401: () => caught(() => ask(clientOf("sonde_wrong"), "Why?")),
    404: () => caught(() => client.responses.retrieve(UNKNOWN)),
    413: () => caught(() => ask(client, "x".repeat(world.tooLarge))),
    422: async () => {
      const { id } = await ask(client, "Why?", queued, once);
      const again = await ask(client, "Why?", queued, once);
      return { same: id === again.id, ...(await caught(() => ask(client, "How?", queued, once))) };
    },
  };
  const own = {
    research: {
      incomplete: () => follow("[sandbox:incomplete] Why?"),
      "stream incomplete": () => stream("[sandbox:incomplete] Why?"),
      429: async () => {
        for (;;) {
          const refused = await caught(() => clientOf(world.hasty).responses.retrieve(UNKNOWN));
          if (refused.status !== 404) return refused;
        }
      },
    },
    chat: {
      429: () => caught(() => ask(clientOf(world.poor), "Why?")),
      functions: async () => {
        const input = "Use lookup_inventory to check the current stock count for DEMO.";
        const first = await ask(client, input, { tools: [TOOL] });
        const calls = first.output.filter((item) => item.type === "function_call");
        const outputs = calls.map(({ call_id, arguments: given }) => ({
          type: "function_call_output",
          call_id,
          output: JSON.stringify({ ...JSON.parse(given), quantity: 7 }),
        }));
        return { first, last: await ask(client, outputs, { previous_response_id: first.id }) };
      },
    },
  };
  const named = Object.entries({ ...scenes, ...own[engine] });
  return Object.fromEntries(named.map(([name, scene]) => [`${engine} ${name}`, scene]));
}
