// The reference client over MCP: official clients of the protocol, which it wraps so that
// they pay when they are asked to. The argument is {"url", "clients", "rpc", "key", "calls":
// [{"by", "tool", "arguments"}]}, where clients is a folder in which those are installed. The
// answer has for each call its result or its error, how it was asked to pay, and the
// credential that it sent.
import { pathToFileURL } from 'node:url'
import { Mppx, tempo } from 'mppx/client'
import { McpClient } from 'mppx/mcp/client'
import { createClient, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { tempoModerato } from 'viem/tempo/chains'

const plan = JSON.parse(process.argv[2])
const node = createClient({ chain: tempoModerato, transport: http(plan.rpc) })
const methods = [tempo({ account: privateKeyToAccount(plan.key), getClient: () => node })]

const from = (path) => import(pathToFileURL(`${plan.clients}/node_modules/@modelcontextprotocol/${path}`))
const { Client: Sessions } = await from('sdk/dist/esm/client/index.js')
const { StreamableHTTPClientTransport: SessionsTransport } = await from('sdk/dist/esm/client/streamableHttp.js')
const { Client, StreamableHTTPClientTransport } = await from('client/dist/index.mjs')

const me = { name: 'webring-tests', version: '1.0.0' }
const required = 'org.paymentauth/payment-required'
const credential = 'org.paymentauth/credential'

// What went over the wire in the present call.
let asked, sent
const recorded = async (input, init) => {
  const message = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined
  sent = message?.params?._meta?.[credential] ?? sent
  const response = await fetch(input, init)
  const text = await response.clone().text()
  if (text.startsWith('{')) {
    const { error, result } = JSON.parse(text)
    if (error) asked ??= { error }
    if (result?._meta?.[required]) asked ??= { result }
  }
  return response
}

const url = new URL(plan.url)
async function connected(client, transport) {
  await client.connect(transport)
  return McpClient.wrap(client, { methods })
}
let id = 0
const payingFetch = Mppx.create({ methods, polyfill: false, fetch: recorded }).fetch
const ways = {
  // Revisions with an initialize call.
  sdk: () => connected(new Sessions(me), new SessionsTransport(url, { fetch: recorded })),
  // The revision without.
  client: () => connected(new Client(me, { versionNegotiation: { mode: { pin: '2026-07-28' } } }), new StreamableHTTPClientTransport(url, { fetch: recorded })),
  // No client of the protocol: the reference client pays beneath it.
  fetch: async () => ({
    callTool: async (params) => {
      const response = await payingFetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method: 'tools/call', params }),
      })
      const { error, result } = await response.json()
      if (error) throw new Error(JSON.stringify(error))
      return result
    },
    close: async () => {},
  }),
}

const answers = []
for (const { by, tool, arguments: given } of plan.calls) {
  asked = sent = undefined
  const client = await ways[by]()
  try {
    const result = await client.callTool({ name: tool, arguments: given })
    answers.push({ result, asked, sent })
  } catch (error) {
    answers.push({ error: String(error?.message ?? error), asked, sent })
  }
  await client.close()
}
console.log(JSON.stringify(answers))
process.exit()
