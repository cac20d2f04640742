// Compiles each contract of this folder to its code as it lies at an address, NAME.sol to NAME.hex:
//
//     npm install --no-save solc@0.8.30 && node token/compile.mjs
//
// The compiler is named exactly and leaves no digest of its input behind, so that
// a second run changes nothing.
import { readFileSync, writeFileSync } from 'node:fs'
import solc from 'solc'

const file = (name) => new URL(name, import.meta.url)
const names = ['Token', 'Account']
const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: 'Solidity',
      sources: Object.fromEntries(names.map((name) => [`${name}.sol`, { content: readFileSync(file(`${name}.sol`), 'utf8') }])),
      settings: {
        optimizer: { enabled: true, runs: 200 },
        evmVersion: 'paris',
        metadata: { appendCBOR: false, bytecodeHash: 'none' },
        outputSelection: { '*': { '*': ['evm.deployedBytecode.object'] } },
      },
    }),
  ),
)
if (output.errors) throw new Error(output.errors.map((e) => e.formattedMessage).join('\n'))
for (const name of names) writeFileSync(file(`${name}.hex`), output.contracts[`${name}.sol`][name].evm.deployedBytecode.object + '\n')
