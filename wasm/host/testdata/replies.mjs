// Asks an instance of the core what a script says, in every engine.
import { imports } from "./wasi.js";

// Makes an instance as the Worker and the page /verify do, with the imports that they give it.
export function start(module) {
  const wasi = imports(() => instance.exports.memory.buffer, console.error);
  const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
  instance.exports._initialize();
  return instance.exports;
}

// Gives the replies to a script, which is a list of calls: operation, argument (u64), length,
// input, all little-endian. Every reply has its length before it.
export function replies({ memory, input, call }, script) {
  const view = new DataView(script.buffer, script.byteOffset, script.length);
  const parts = [];
  for (let at = 0; at < script.length; ) {
    const [op, arg, size] = [view.getUint32(at, true), view.getBigUint64(at + 4, true), view.getUint32(at + 12, true)];
    at += 16;
    const to = input(size) >>> 0;
    new Uint8Array(memory.buffer, to, size).set(script.subarray(at, at + size));
    at += size;
    const reply = BigInt.asUintN(64, call(op, arg, size));
    const [from, length] = [Number(reply >> 32n), Number(reply & 0xffffffffn)];
    // Copied: the memory may move with the next call.
    parts.push(Uint32Array.of(length), new Uint8Array(memory.buffer.slice(from, from + length)));
  }
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let end = 0;
  for (const part of parts) {
    all.set(new Uint8Array(part.buffer), end);
    end += part.byteLength;
  }
  return all;
}
