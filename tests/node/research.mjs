// Research at /v1/responses: both SDKs have the same three calls.

import { caught, collect, until, world } from "./world.mjs";

const UNKNOWN = `resp_${"0".repeat(32)}`;
const TERMINAL = ["completed", "failed", "incomplete", "cancelled"];

// `clientOf` makes a client of a key; `sdk` names it in idempotency keys.
export function research(sdk, clientOf) {
  const client = clientOf(world.key);
  const start = (input, options = {}, more = {}) =>
    client.responses.create({ input, preset: "2m", ...more }, options);
  const end = (id) =>
    until(
      () => client.responses.retrieve(id),
      (run) => TERMINAL.includes(run.status),
    );
  const follow = async (input) => {
    const created = await start(input);
    return { created, done: await end(created.id) };
  };
  const stream = async (input) => {
    const events = await collect(await start(input, {}, { stream: true }));
    return { events, final: await client.responses.retrieve(events[0].response.id) };
  };
  const once = { headers: { "Idempotency-Key": `conflict-node-${sdk}` } };
  return {
    completed: () => follow("Why is the sky blue?"),
    failed: () => follow("[sandbox:failed] Why?"),
    incomplete: () => follow("[sandbox:incomplete] Why?"),
    cancelled: async () => {
      const created = await start("[sandbox:stuck] Why?");
      const stopping = await client.responses.cancel(created.id);
      return { created, stopping, done: await end(created.id) };
    },
    streamCompleted: () => stream("Why is the sky blue?"),
    streamFailed: () => stream("[sandbox:failed] Why?"),
    streamIncomplete: () => stream("[sandbox:incomplete] Why?"),
    streamCancelled: async () => {
      const events = [];
      for await (const event of await start("[sandbox:stuck] Why?", {}, { stream: true })) {
        if (event.type === "response.created") await client.responses.cancel(event.response.id);
        events.push(event);
      }
      return { events, final: await client.responses.retrieve(events[0].response.id) };
    },
    "400": () => caught(() => start("")),
    "401": () => caught(() => clientOf("sonde_wrong").responses.retrieve(UNKNOWN)),
    "404": () => caught(() => client.responses.retrieve(UNKNOWN)),
    "413": () => caught(() => start("x".repeat(world.tooLarge))),
    "422": async () => {
      await start("Why?", once);
      return caught(() => start("How?", once));
    },
    "429": async () => {
      const hasty = clientOf(world.hasty);
      for (;;) {
        const refused = await caught(() => hasty.responses.retrieve(UNKNOWN));
        if (refused.status !== 404) return refused;
      }
    },
  };
}
