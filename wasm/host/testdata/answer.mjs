// Runs the core in Node, behind Node's WASI or behind the imports that another file makes:
// node answer.mjs MODULE SCRIPT REPLIES [FILE]. A script is a list of calls: operation, argument (u32 low, u32 high), length, input, all
// little-endian. Every reply is written with its length before it.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { WASI } from "node:wasi";

const [module, script] = process.argv.slice(2, 4).map((path) => readFileSync(path));
let instance;
if (process.argv[5]) {
  const { imports } = await import(pathToFileURL(process.argv[5]));
  const wasi = imports(() => instance.exports.memory.buffer, console.error);
  ({ instance } = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi }));
  instance.exports._initialize();
} else {
  const wasi = new WASI({ version: "preview1" });
  ({ instance } = await WebAssembly.instantiate(module, wasi.getImportObject()));
  wasi.initialize(instance);
}
const { memory, input, call } = instance.exports;

const replies = [];
for (let at = 0; at < script.length; ) {
  const op = script.readUInt32LE(at);
  const arg = script.readBigUInt64LE(at + 4);
  const size = script.readUInt32LE(at + 12);
  at += 16;
  const to = input(size) >>> 0;
  new Uint8Array(memory.buffer, to, size).set(script.subarray(at, at + size));
  at += size;
  const reply = BigInt.asUintN(64, call(op, arg, size));
  const length = Number(reply & 0xffffffffn);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(length);
  // Copied: the memory may move with the next call.
  replies.push(head, Buffer.from(memory.buffer.slice(Number(reply >> 32n), Number(reply >> 32n) + length)));
}
writeFileSync(process.argv[4], Buffer.concat(replies));
