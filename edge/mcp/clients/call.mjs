// Lists and calls tools with the official TypeScript clients, which validate structured
// content against the tool's schema by themselves: one that opens a session, and one for the
// revision of the protocol that has none. The argument is {"url", "calls": [{"tool",
// "arguments"}]}; the answer has for each client {"tools", "revision", "ttlMs", "results"}.
import { Client as Sessions } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as SessionsTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const plan = JSON.parse(process.argv[2]);
const url = new URL(plan.url);
const me = { name: "webring-tests", version: "1.0.0" };
const old = new SessionsTransport(url);
const clients = {
  sdk: [new Sessions(me), old, () => old.protocolVersion],
  client: [new Client(me, { versionNegotiation: { mode: "auto" } }), new StreamableHTTPClientTransport(url), (c) => c.getNegotiatedProtocolVersion()],
};
const answer = {};
for (const [by, [client, transport, revision]] of Object.entries(clients)) {
  await client.connect(transport);
  const { tools, ttlMs } = await client.listTools();
  const results = [];
  for (const { tool, arguments: given } of plan.calls) {
    results.push(await client.callTool({ name: tool, arguments: given }));
  }
  answer[by] = { tools: tools.map((t) => t.name), revision: revision(client), ttlMs, results };
  await client.close();
}
console.log(JSON.stringify(answer));
