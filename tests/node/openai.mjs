// The openai SDK: research, and chat completions plain, streamed, by the helper, failing, left.

import { research } from "./research.mjs";
import { caught, collect, load, play, world } from "./world.mjs";

const { default: OpenAI } = await load("openai/index.mjs");

const clientOf = (apiKey) => new OpenAI({ apiKey, baseURL: `${world.url}/v1`, maxRetries: 0 });
const client = clientOf(world.key);
const asking = (content, more = {}) => ({ model: "gpt", messages: [{ role: "user", content }], ...more });
const chat = (content, more) => client.chat.completions.create(asking(content, more));

play({
  ...research("openai", clientOf),
  chat: () => chat("Why is the sky blue?"),
  chatStream: async () =>
    collect(await chat("Why?", { stream: true, stream_options: { include_usage: true } })),
  chatHelper: async () => {
    const stream = client.chat.completions.stream(asking("Why is the sky blue?"));
    let said = "";
    stream.on("content", (delta) => (said += delta));
    return { final: await stream.finalChatCompletion(), said };
  },
  chat400: () => caught(() => chat("Why?", { model: "nope" })),
  chat401: () => caught(() => clientOf("sonde_wrong").chat.completions.create(asking("Why?"))),
  chat403: () => caught(() => chat("Why?", { model: "haiku" })),
  chat429: () => caught(() => clientOf(world.poor).chat.completions.create(asking("Why?"))),
  chat502: () => caught(() => chat("Why? [sandbox:web.invalid]", { stream: true })),
  chatBroken: async () => {
    const stream = await chat("Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", { stream: true });
    return caught(() => collect(stream));
  },
  chatLeft: async () => {
    const leaver = clientOf(world.leaver).chat.completions;
    const question = asking("Why? [sandbox:duration=30] [sandbox:pieces=300]", { stream: true });
    const stream = await leaver.create(question);
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break;
    }
    return stream.controller.signal.aborted;
  },
});
