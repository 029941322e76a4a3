// Both TypeScript clients of MCP, over each transport that they have: the tools, a call, a call that is refused.

import { load, play, world } from "./world.mjs";

const old = "@modelcontextprotocol/sdk/dist/esm/client";
const [older, olderHttp, olderSse, olderStdio] = await Promise.all(
  ["index", "streamableHttp", "sse", "stdio"].map((name) => load(`${old}/${name}.js`)),
);
const newer = await load("@modelcontextprotocol/client/dist/index.mjs");
const newerStdio = await load("@modelcontextprotocol/client/dist/stdio.mjs");

const me = { name: "tests", version: "1" };
const bearer = { requestInit: { headers: { Authorization: `Bearer ${world.key}` } } };
const at = (path) => new URL(path, world.url);
const http = (of) => new of.StreamableHTTPClientTransport(at("/mcp"), bearer);
const httpByUrl = (of) => new of.StreamableHTTPClientTransport(at(`/${world.urlKey}/mcp`));
const sse = (of) => new of.SSEClientTransport(at(`/${world.urlKey}/sse`));
const stdio = (of) => new of.StdioClientTransport(world.stdio);

async function visit(client, transport) {
  await client.connect(transport);
  try {
    const { tools } = await client.listTools();
    const list = () => client.callTool({ name: "list_research", arguments: { limit: 1 } });
    const listed = await Promise.all(Array.from({ length: world.calls }, list));
    const wrong = await client.callTool({ name: "get_research", arguments: { id: "resp_none" } });
    return {
      tools: tools.map((tool) => tool.name),
      answered: listed.filter((answer) => Array.isArray(answer.structuredContent?.runs)).length,
      isError: wrong.isError === true,
    };
  } finally {
    await client.close();
  }
}

const first = () => new older.Client(me);
const second = (mode) => new newer.Client(me, mode ? { versionNegotiation: { mode } } : {});

await play({
  "sdk http": () => visit(first(), http(olderHttp)),
  "sdk http-url": () => visit(first(), httpByUrl(olderHttp)),
  "sdk sse": () => visit(first(), sse(olderSse)),
  "sdk stdio": () => visit(first(), stdio(olderStdio)),
  "client http": () => visit(second(), http(newer)),
  "client http modern": () => visit(second("auto"), http(newer)),
  "client http-url": () => visit(second(), httpByUrl(newer)),
  "client sse": () => visit(second(), sse(newer)),
  "client stdio": () => visit(second(), stdio(newerStdio)),
});
// The SDKs leave timers behind.
process.exit(0);
