// The openai SDK: research, files, and chat completions plain, streamed, by the helper, failing, left.

import { responses } from "./responses.mjs";
import { caught, collect, load, play, settledCredits, world } from "./world.mjs";

const { default: OpenAI, toFile } = await load("openai/index.mjs");

const clientOf = (apiKey) => new OpenAI({ apiKey, baseURL: `${world.url}/v1`, maxRetries: 0 });
const client = clientOf(world.key);
const asking = (content, more = {}) => ({ model: "gpt", messages: [{ role: "user", content }], ...more });
const ask = (input, more = {}) => client.responses.create({ model: "gpt", input, ...more });
const PNG = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(1000)]);
const FUNCTION = {
  name: "lookup_inventory",
  description: "Stock of a SKU.",
  parameters: {
    type: "object",
    properties: { sku: { type: "string", enum: ["DEMO"] } },
    required: ["sku"],
    additionalProperties: false,
  },
};
const LONG = "Why? [sandbox:duration=30] [sandbox:pieces=300]";
const chat = (content, more) => client.chat.completions.create(asking(content, more));

play({
  ...responses("openai", clientOf, "research"),
  ...responses("openai", clientOf, "chat"),
  researchHelper: async () => {
    const stream = client.responses.stream({ input: "Why is the sky blue?", preset: "2m" });
    let said = "";
    stream.on("response.output_text.delta", (event) => (said += event.delta));
    return { final: await stream.finalResponse(), said };
  },
  researchResumed: async () => {
    const events = await collect(
      await client.responses.create({ input: "Why?", preset: "2m", stream: true }),
    );
    const again = { stream: true, starting_after: 4 };
    return { events, rest: await collect(await client.responses.retrieve(events[0].response.id, again)) };
  },
  response: async () => {
    const made = await ask("Why is the sky blue?");
    const items = await client.responses.inputItems.list(made.id);
    return { made, again: await client.responses.retrieve(made.id), items: items.data };
  },
  responseHelper: async () => {
    const stream = client.responses.stream({ model: "gpt", input: "Why is the sky blue?" });
    let said = "";
    stream.on("response.output_text.delta", (event) => (said += event.delta));
    return { final: await stream.finalResponse(), said };
  },
  responseChained: async () => {
    const first = await ask("Why is the sky blue?");
    const second = await ask("And at dusk?", { previous_response_id: first.id });
    return { first, second };
  },
  responseDeleted: async () => {
    const made = await ask("Why?");
    await client.responses.delete(made.id);
    return caught(() => client.responses.retrieve(made.id));
  },
  response502: () => caught(() => ask("Why? [sandbox:web.invalid]")),
  files: async () => {
    const file = await toFile(PNG, "кот.png");
    const made = await client.files.create({ file, purpose: "vision" });
    const content = Buffer.from(await (await client.files.content(made.id)).arrayBuffer());
    const listed = await collect(client.files.list({ limit: 1, purpose: "vision" }));
    const gone = await client.files.delete(made.id);
    const after = await caught(() => client.files.retrieve(made.id));
    return { made, same: content.equals(PNG), listed, gone, after };
  },
  file413: async () => {
    const file = await toFile(Buffer.alloc(20 * 1024 * 1024 + 1), "large.bin");
    return caught(() => client.files.create({ file, purpose: "user_data" }));
  },
  file400: async () => {
    const file = await toFile(PNG, "a".repeat(300));
    return caught(() => client.files.create({ file, purpose: "user_data" }));
  },
  pictures: async () => {
    const url = `data:image/png;base64,${PNG.toString("base64")}`;
    const made = await chat([{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url } }]);
    const response = await ask([{ role: "user", content: [{ type: "input_image", image_url: url }] }]);
    return { said: made.choices[0].message.content, status: response.status };
  },
  tools: async () => {
    const seen = [];
    const lookup = (given) => seen.push(given) && { ...given, quantity: 7 };
    const runner = client.chat.completions.runTools({
      ...asking("Use lookup_inventory to check the current stock count for DEMO."),
      tools: [{ type: "function", function: { ...FUNCTION, function: lookup, parse: JSON.parse } }],
    });
    return { said: await runner.finalContent(), seen, messages: runner.messages };
  },
  toolStream: async () => {
    const stream = client.chat.completions.stream(
      asking("Use lookup_inventory to check the current stock count for DEMO.", {
        tools: [{ type: "function", function: { ...FUNCTION, strict: true } }],
      }),
    );
    return (await stream.finalChatCompletion()).choices[0];
  },
  toolHelper: async () => {
    const input = "Use lookup_inventory to check the current stock count for DEMO.";
    const tools = [{ type: "function", strict: true, ...FUNCTION }];
    const stream = client.responses.stream({ model: "gpt", input, tools });
    const deltas = [];
    stream.on("response.function_call_arguments.delta", (event) => deltas.push(event.delta));
    return { final: await stream.finalResponse(), joined: deltas.join("") };
  },
  tool502: () =>
    caught(() => chat("Stock? [sandbox:bridge=fenced]", { tools: [{ type: "function", function: FUNCTION }] })),
  document502: async () => {
    const part = { type: "file", file: { filename: "a.txt", file_data: "data:text/plain;base64,YQ==" } };
    return caught(() => chat([part]));
  },
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
  chat413: () => caught(() => chat("x".repeat(world.tooLarge))),
  chat429: () => caught(() => clientOf(world.poor).chat.completions.create(asking("Why?"))),
  chat502: () => caught(() => chat("Why? [sandbox:web.invalid]", { stream: true })),
  chatBroken: async () => {
    const stream = await chat("Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", { stream: true });
    return caught(() => collect(stream));
  },
  chatLeft: async () => {
    const stream = await clientOf(world.leaver).chat.completions.create(asking(LONG, { stream: true }));
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break;
    }
    return settledCredits(world.leaver);
  },
});
