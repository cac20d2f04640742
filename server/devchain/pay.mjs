// The reference client as a long-lived process, driven by client.go: one JSON
// request per line on stdin, one JSON answer per line on stdout, in any order.
// It ends when stdin does, so it cannot outlive whoever started it.
import { createInterface } from 'node:readline'
import { evm, Mppx, tempo } from 'mppx/client'
import { createClient, http, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { tempoModerato } from 'viem/tempo/chains'

const node = createClient({ chain: tempoModerato, transport: http(process.argv[2]) })

// The chain reckons too little gas for a transaction that uses the exchange: of several
// calls, it executes none for its estimate.
const generous = (options) => {
  const transport = http(process.argv[2])(options)
  const request = async (question) => {
    const answer = await transport.request(question)
    if (question.method === 'eth_fillTransaction') answer.tx.gas = toHex(BigInt(answer.tx.gas) * 4n)
    return answer
  }
  return { ...transport, request }
}
const exchanging = createClient({ chain: tempoModerato, transport: generous })

// The ways to pay, by the names they have in challenges; "swap" is Tempo's by selling
// another token.
const ways = {
  tempo: (account) => tempo({ account, getClient: () => node }),
  swap: (account) => tempo({ account, getClient: () => exchanging, autoSwap: true }),
  evm: (account) => evm({ account, currencies: [evm.assets.base.USDC] }),
}

function payer(key, by, fetch) {
  const account = privateKeyToAccount(key)
  const methods = by.map((name) => ways[name](account))
  return Mppx.create({ methods, polyfill: false, ...(fetch && { fetch }) })
}

async function keep(response) {
  const body = Buffer.from(await response.clone().arrayBuffer()).toString('base64')
  return { status: response.status, headers: [...response.headers], body }
}

// pay sends the request, pays when asked to, and tells of every exchange it
// had; the last one is the client's result.
async function pay({ key, by, url, method, headers, body }) {
  const exchanges = []
  const recorded = async (input, init) => {
    const authorization = new Request(input, init).headers.get('authorization') ?? ''
    const response = await fetch(input, init)
    exchanges.push({ authorization, ...(await keep(response)) })
    return response
  }
  const init = { method, headers, ...(body && { body: Buffer.from(body, 'base64') }) }
  try {
    await payer(key, by, recorded).fetch(url, init)
    return { exchanges }
  } catch (error) {
    return { exchanges, error: String(error?.message ?? error) }
  }
}

// sign answers a challenge without sending the credential anywhere.
async function sign({ key, by, challenge }) {
  const response = new Response(null, { status: 402, headers: { 'WWW-Authenticate': challenge } })
  return { authorization: await payer(key, by).createCredential(response) }
}

const operations = { pay, sign }

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, ...request } = JSON.parse(line)
  const answer = (a) => process.stdout.write(JSON.stringify({ id, ...a }) + '\n')
  operations[op](request).then(answer, (error) => answer({ error: String(error?.message ?? error) }))
}

// Connections that are kept alive would keep the process too.
process.exit()
