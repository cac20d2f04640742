// Records how viem writes, for a node's simulation, the key authorizations in
// the transactions of mppx.json. Run after server/devchain/vectors.mjs, where
// that has installed its modules: node simulations.mjs
import { readFileSync, writeFileSync } from 'node:fs'
import { Transaction } from '../../devchain/node_modules/viem/_esm/tempo/index.js'
import * as KeyAuthorization from '../../devchain/node_modules/viem/node_modules/ox/_esm/tempo/KeyAuthorization.js'

const here = (name) => new URL(name, import.meta.url)
const { credentials } = JSON.parse(readFileSync(here('mppx.json')))
const recorded = {}
for (const { name, raw } of credentials) {
  const { keyAuthorization } = Transaction.deserialize(raw)
  if (keyAuthorization) recorded[name] = KeyAuthorization.toRpc(keyAuthorization)
}
writeFileSync(here('simulations.json'), JSON.stringify(recorded, null, 1) + '\n')
