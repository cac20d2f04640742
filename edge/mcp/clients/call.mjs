// Lists and calls tools with the official TypeScript client, which validates
// structured content against the tool's schema by itself. The argument is
// {"url", "calls": [{"tool", "arguments"}]}; the answer {"tools", "results"}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const plan = JSON.parse(process.argv[2]);
const client = new Client({ name: "webring-tests", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(plan.url)));
const { tools } = await client.listTools();
const results = [];
for (const { tool, arguments: given } of plan.calls) {
  results.push(await client.callTool({ name: tool, arguments: given }));
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((t) => t.name), results }));
