// The reference clients as a long-lived process, driven by client.go: one JSON
// request per line on stdin, one JSON answer per line on stdout, in any order.
// It ends when stdin does, so it cannot outlive whoever started it.
import { createInterface } from 'node:readline'
import { evm, Mppx, tempo } from 'mppx/client'
import { createClient, http, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { tempoModerato } from 'viem/tempo/chains'

// The chain sometimes reckons too little gas: of several calls it executes none for its
// estimate, and single payments have run out of it, too. Gas that is not used costs nothing.
const generous = (options) => {
  const transport = http(process.argv[2])(options)
  const request = async (question) => {
    const answer = await transport.request(question)
    if (question.method === 'eth_fillTransaction') answer.tx.gas = toHex(BigInt(answer.tx.gas) * 4n)
    return answer
  }
  return { ...transport, request }
}
const node = createClient({ chain: tempoModerato, transport: generous })

// The ways to pay, by the names they have in challenges; "swap" is Tempo's by selling
// another token.
const ways = {
  tempo: (account) => tempo({ account, getClient: () => node }),
  swap: (account) => tempo({ account, getClient: () => node, autoSwap: true }),
  evm: (account) => evm({ account, currencies: [evm.assets.base.USDC] }),
}

// signer is the account of a key, or a smart account for which the key signs.
const signer = (key, as) => ({ ...privateKeyToAccount(key), ...(as && { address: as }) })

function payer(key, as, by, fetch) {
  const account = signer(key, as)
  const methods = by.map((name) => ways[name](account))
  return Mppx.create({ methods, polyfill: false, ...(fetch && { fetch }) })
}

// x402 gives a fetch that pays as the reference client of x402 does, for up to a thousand
// dollars a request: of itself it pays one.
async function x402(key, as, fetch) {
  const { wrapFetchWithPayment, x402Client } = await import('@x402/fetch')
  const { ExactEvmScheme } = await import('@x402/evm/exact/client')
  const client = new x402Client().register('eip155:*', new ExactEvmScheme(signer(key, as)))
  return wrapFetchWithPayment(fetch, client.setSpendControls({ maxAmountPerPayment: '$1000' }))
}

// x402Axios gives a function like fetch that pays as the client of x402 for Axios does. Its client
// has no limit.
async function x402Axios(key, as, exchanges) {
  const { default: axios } = await import('axios')
  const { wrapAxiosWithPayment, x402Client } = await import('@x402/axios')
  const { ExactEvmScheme } = await import('@x402/evm/exact/client')
  function record(body, headers, status) {
    const authorization = this.headers.get('payment-signature') ?? ''
    exchanges.push({ authorization, status, headers: [...headers], body: Buffer.from(body).toString('base64') })
    return body
  }
  const recording = axios.create({ transformResponse: [record, ...axios.defaults.transformResponse] })
  const client = new x402Client().register('eip155:*', new ExactEvmScheme(signer(key, as)))
  const paying = wrapAxiosWithPayment(recording, client)
  return (url, { body, ...init }) => paying.request({ url, data: body, ...init })
}

async function keep(response) {
  const body = Buffer.from(await response.clone().arrayBuffer()).toString('base64')
  return { status: response.status, headers: [...response.headers], body }
}

// pay sends the request, pays when asked to, and tells of every exchange it
// had; the last one is the client's result.
async function pay({ key, as, by, url, method, headers, body }) {
  const exchanges = []
  const recorded = async (input, init) => {
    const sent = input instanceof Request ? input.headers : new Request(input, init).headers
    const authorization = sent.get('authorization') ?? sent.get('payment-signature') ?? ''
    const response = await fetch(input, init)
    exchanges.push({ authorization, ...(await keep(response)) })
    return response
  }
  const init = { method, headers, ...(body && { body: Buffer.from(body, 'base64') }) }
  try {
    const paying = by.includes('axios') ? await x402Axios(key, as, exchanges)
      : by.includes('x402') ? await x402(key, as, recorded)
      : payer(key, as, by, recorded).fetch
    await paying(url, init)
    return { exchanges }
  } catch (error) {
    return { exchanges, error: String(error?.message ?? error) }
  }
}

// sign answers a challenge without sending the credential anywhere.
async function sign({ key, by, challenge }) {
  const response = new Response(null, { status: 402, headers: { 'WWW-Authenticate': challenge } })
  return { authorization: await payer(key, null, by).createCredential(response) }
}

const operations = { pay, sign }

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, ...request } = JSON.parse(line)
  const answer = (a) => process.stdout.write(JSON.stringify({ id, ...a }) + '\n')
  operations[op](request).then(answer, (error) => answer({ error: String(error?.message ?? error) }))
}

// Connections that are kept alive would keep the process too.
process.exit()
