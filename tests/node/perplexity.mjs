// Perplexity's SDK: research, asynchronous Sonar, and synchronous Sonar plain and in both stream modes.

import { responses } from "./responses.mjs";
import { caught, collect, load, play, settledCredits, until, world } from "./world.mjs";

const { default: Perplexity } = await load("@perplexity-ai/perplexity_ai/dist/index.js");

const clientOf = (apiKey) => new Perplexity({ apiKey, baseURL: world.url, maxRetries: 0 });
const client = clientOf(world.key);
const asking = (content, more = {}) => ({ model: "sonar-pro", messages: [{ role: "user", content }], ...more });
const chat = (content, more) => client.chat.completions.create(asking(content, more));
const jobs = client.async.chat.completions;
const job = (content, more = {}) => ({
  request: asking(content, { model: "sonar-deep-research", ...more }),
});
const submit = async (content) => {
  const created = await jobs.create(job(content));
  const ended = (seen) => ["COMPLETED", "FAILED"].includes(seen.status);
  return { created, done: await until(() => jobs.get(created.id), ended) };
};

play({
  ...responses("perplexity", clientOf, "research"),
  ...responses("perplexity", clientOf, "chat"),
  jobCompleted: () => submit("Why is the sky blue?"),
  jobFailed: () => submit("[sandbox:failed] Why?"),
  jobIncomplete: () => submit("[sandbox:incomplete] Why?"),
  jobOnce: async () => {
    const body = { ...job("Why?"), idempotency_key: "node-once" };
    const [first, again] = [await jobs.create(body), await jobs.create(body)];
    const other = await caught(() => jobs.create({ ...body, ...job("How?") }));
    return { first, again, other };
  },
  jobList: async () => {
    const created = await jobs.create(job("Why?"));
    return { created, list: await jobs.list() };
  },
  job400: () => caught(() => jobs.create(job("Why?", { model: "sonar" }))),
  job401: () => caught(() => clientOf("sonde_wrong").async.chat.completions.list()),
  job404: () => caught(() => jobs.get(`resp_${"0".repeat(32)}`)),
  job413: () => caught(() => jobs.create(job("x".repeat(world.tooLarge)))),
  chat: () => chat("Why is the sky blue?"),
  chatFull: async () => collect(await chat("Why?", { stream: true })),
  chatConcise: async () => collect(await chat("Why?", { stream: true, stream_mode: "concise" })),
  chat400: () => caught(() => chat("Why?", { model: "sonar-deep-research" })),
  chat401: () => caught(() => clientOf("sonde_wrong").chat.completions.create(asking("Why?"))),
  chat413: () => caught(() => chat("x".repeat(world.tooLarge))),
  chat429: () => caught(() => clientOf(world.poor).chat.completions.create(asking("Why?"))),
  chat502: () => caught(() => chat("Why? [sandbox:web.invalid]", { stream: true })),
  chatBroken: async () => {
    const stream = await chat("Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", { stream: true });
    return caught(() => collect(stream));
  },
  chatLeft: async () => {
    const question = asking("Why? [sandbox:duration=30] [sandbox:pieces=300]", { stream: true });
    const stream = await clientOf(world.leaver).chat.completions.create(question);
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break;
    }
    stream.controller.abort();
    return settledCredits(world.leaver);
  },
});
