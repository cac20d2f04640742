// Runs the core in Node or Deno, with the imports of the Worker or of Node's WASI, and writes its
// replies to a script beside it: answer.mjs [node:wasi].
import { readFileSync, writeFileSync } from "node:fs";
import { replies, start } from "./replies.mjs";

const module = await WebAssembly.compile(readFileSync("core.wasm"));
let core;
if (process.argv[2]) {
  const { WASI } = await import(process.argv[2]);
  const wasi = new WASI({ version: "preview1" });
  const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
  wasi.initialize(instance);
  core = instance.exports;
} else {
  core = start(module);
}
writeFileSync("replies", replies(core, readFileSync("script")));
