// Makes the recorded values that the tests of server/pay/mpp, server/pay/tempo and
// server/pay/evm compare with: everything in them comes from the reference client (mppx) and
// from viem, nothing from this repository. Run: node vectors.mjs
//
// The clock and the random source are fixed before anything is imported, so
// that a second run changes nothing.
const now = Date.UTC(2026, 0, 15, 12, 0, 0)
Date.now = () => now
let drawn = 0
globalThis.crypto.getRandomValues = (bytes) => bytes.map((_, i) => (bytes[i] = (++drawn * 101) & 0xff)) && bytes

const { mkdirSync, writeFileSync } = await import('node:fs')
const { BodyDigest, Challenge, Credential, Receipt } = await import('mppx')
const { evm, tempo } = await import('mppx/client')
const Attribution = await import('./node_modules/mppx/dist/tempo/Attribution.js')
const { createClient, custom, keccak256, toFunctionSelector, toHex } = await import('viem')
const { privateKeyToAccount } = await import('viem/accounts')
const { Account, Addresses, Transaction } = await import('viem/tempo')
const { tempoModerato } = await import('viem/tempo/chains')

const secretKey = 'a key for tests, longer than thirty-two bytes'
const expires = new Date(now + 300_000).toISOString()
const recipient = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8'
const currency = '0x20c0000000000000000000000000000000000000'
const request = (amount) => ({
  amount,
  currency,
  recipient,
  methodDetails: { chainId: 42431, supportedModes: ['pull'] },
})

// ---- server/pay/mpp

const base = { realm: 'ring.example', method: 'tempo', intent: 'charge', request: request('1000000'), secretKey }
const digest = 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
const meta = { nonce: 'r4nd', op: 'register', url: 'https://bücher.example/?q=<a>&b="c"' }
const challenges = Object.entries({
  bare: base,
  expires: { ...base, expires },
  digest: { ...base, digest },
  opaque: { ...base, meta },
  'expires and digest': { ...base, expires, digest },
  all: { ...base, expires, digest, meta, description: 'Join the ring' },
  'quoted description': { ...base, expires, description: 'Join "the" ring \\ for 1.00 – ☕ 🎉' },
}).map(([name, parameters]) => {
  const challenge = Challenge.from(parameters)
  return {
    name,
    header: Challenge.serialize(challenge),
    request: parameters.request,
    meta: parameters.meta,
    challenge: { ...challenge, request: undefined, meta: undefined },
    authorization: Credential.serialize({ challenge, payload: { type: 'transaction', signature: '0x76' }, source: 'did:pkh:eip155:42431:0x1' }),
  }
})
const digests = ['', '{}', '{"name":"Bücher ☕"}'].map((body) => ({ body, digest: BodyDigest.compute(body) }))
const receipts = [
  { method: 'tempo', reference: '0x' + 'ab'.repeat(32), status: 'success', timestamp: new Date(now).toISOString() },
  { method: 'tempo', reference: '0x' + '01'.repeat(32), status: 'success', timestamp: new Date(now + 7).toISOString(), externalId: 'order 7' },
].map((receipt) => ({ receipt, header: Receipt.serialize(receipt) }))
save('../pay/mpp/testdata', { secretKey, challenges, digests, receipts })

// ---- server/pay/tempo

// The node only has to name a gas price and a gas amount, and to know no keys.
const node = createClient({
  chain: tempoModerato,
  transport: custom({
    async request({ method, params }) {
      if (method === 'eth_call' && swapAnswers[params[0].data.slice(0, 10)])
        return toHex(swapAnswers[params[0].data.slice(0, 10)][params[0].to.toLowerCase()] ?? 0, { size: 32 })
      if (method === 'eth_chainId') return toHex(42431)
      if (method === 'eth_estimateGas') return toHex(533_488)
      if (method === 'eth_call') return '0x' + '00'.repeat(5 * 32) // no key is known yet
      if (method === 'eth_maxPriorityFeePerGas') return toHex(1_000_000_000)
      if (method === 'eth_getBlockByNumber') return { number: '0x1', timestamp: toHex(now / 1000), baseFeePerGas: toHex(20_000_000_000), transactions: [] }
      throw Object.assign(new Error(`the vectors need ${method}`), { code: -32601 })
    },
  }),
})
// For a swap, the node has to name balances (of the currency: none) and a price, too.
const sold = '0x20c0000000000000000000000000000000000001'
const swapAnswers = {
  [toFunctionSelector('balanceOf(address)')]: { [sold]: 5_000_000n },
  [toFunctionSelector('quoteSwapExactAmountOut(address,address,uint128)')]: { [Addresses.stablecoinDex]: 1_000_100n },
}
const key = (n) => toHex(n, { size: 32 })
const root = Account.fromSecp256k1(key(7))
const access = {
  secp256k1: Account.fromSecp256k1(key(8), { access: root }),
  p256: Account.fromP256(key(9), { access: root }),
  webAuthn: Account.fromHeadlessWebAuthn(key(10), { access: root, rpId: 'ring.example', origin: 'https://ring.example' }),
  v1: Account.fromSecp256k1(key(8), { access: root, internal_version: 'v1' }),
}
const authorized = async (options, by, signer = root) => {
  const keyAuthorization = await signer.signKeyAuthorization(by(), { chainId: 42431n, ...options })
  return by({ get: () => keyAuthorization, remove() {} })
}
const withManager = (manager) => Account.fromP256(key(9), { access: root, keyAuthorizationManager: manager })
const passkey = Account.fromHeadlessWebAuthn(key(10), { rpId: 'ring.example', origin: 'https://ring.example' })
const underPasskey = (manager) => Account.fromSecp256k1(key(8), { access: passkey, keyAuthorizationManager: manager })
const accounts = {
  secp256k1: privateKeyToAccount(key(7)),
  'secp256k1, another challenge': privateKeyToAccount(key(7)),
  p256: Account.fromP256(key(9)),
  webAuthn: Account.fromHeadlessWebAuthn(key(10), { rpId: 'ring.example', origin: 'https://ring.example' }),
  'keychain of secp256k1': access.secp256k1,
  'keychain of p256': access.p256,
  'keychain of webAuthn': access.webAuthn,
  'keychain, first version': access.v1,
  'keychain with its authorization': await authorized({ expiry: now / 1000 + 3600 }, withManager),
  'keychain with limits and scopes': await authorized(
    { expiry: now / 1000 + 3600, limits: [{ token: currency, limit: 5_000_000n }], scopes: [{ address: currency }] },
    withManager,
  ),
  'keychain authorized by a passkey': await authorized({ expiry: now / 1000 + 3600 }, underPasskey, passkey),
}
const credentials = []
async function record(name, account, options) {
  const challenge = Challenge.from({ ...base, expires, digest, meta: { n: name } })
  const charge = tempo.charge({ account, getClient: () => node, clientId: name === 'p256' ? 'a-client' : undefined, ...options })
  const authorization = await charge.createCredential({ challenge, context: {} })
  const { payload, source } = Credential.deserialize(authorization)
  const tx = Transaction.deserialize(payload.signature)
  credentials.push({
    name,
    challenge: Challenge.serialize(challenge),
    authorization,
    source,
    raw: payload.signature,
    hash: keccak256(payload.signature),
    memo: '0x' + tx.calls.at(-1).data.slice(-64),
    sender: tx.from.toLowerCase(),
    validBefore: tx.validBefore,
    validAfter: tx.validAfter,
    gas: Number(tx.gas),
    maxFeePerGas: Number(tx.maxFeePerGas),
    signature: tx.signature.type,
  })
}
for (const [name, account] of Object.entries(accounts)) await record(name, account)
const memos = [
  { challengeId: 'abc', serverId: 'ring.example' },
  { challengeId: '', serverId: '' },
  { challengeId: 'qB3wErTyU7iOpAsD9fGhJk', serverId: 'bücher.example', clientId: 'x' },
].map((m) => ({ ...m, memo: Attribution.encode(m) }))
const proofs = []
for (const name of ['secp256k1', 'p256', 'webAuthn', 'keychain of p256', 'keychain, first version']) {
  const account = accounts[name]
  const challenge = Challenge.from({ ...base, request: request('0'), expires, digest, meta: { n: name } })
  const charge = tempo.charge({ account, getClient: () => node })
  const authorization = await charge.createCredential({ challenge, context: {} })
  proofs.push({ name, authorization, account: account.address.toLowerCase() })
}
await record('swap', accounts.secp256k1, { autoSwap: { tokenIn: [sold] } })
save('../pay/tempo/testdata', { now: now / 1000, currency, recipient, memos, credentials, proofs })

// ---- server/pay/evm

const usdc = evm.assets.base.USDC
const charge = {
  amount: '1000000',
  currency: usdc.address,
  recipient: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  methodDetails: {
    chainId: 8453,
    credentialTypes: ['authorization'],
    decimals: 6,
    permit2Address: '0x000000000022D473030F116dDEE9F6B43aC78BA3',
  },
}
const authorizations = []
for (const n of [7, 8]) {
  const challenge = Challenge.from({ ...base, method: 'evm', request: charge, expires, digest, meta: { n: String(n) } })
  const account = privateKeyToAccount(key(n))
  const [method] = evm({ account, currencies: [usdc] })
  const authorization = await method.createCredential({ challenge, context: {} })
  const { payload, source } = Credential.deserialize(authorization)
  authorizations.push({ challenge: Challenge.serialize(challenge), authorization, source, ...payload })
}
save('../pay/evm/testdata', { now: now / 1000, currency: usdc.address, recipient: charge.recipient, authorizations })

function save(folder, values) {
  const dir = new URL(folder + '/', import.meta.url)
  mkdirSync(dir, { recursive: true })
  writeFileSync(new URL('mppx.json', dir), JSON.stringify(values, null, 1) + '\n')
}
