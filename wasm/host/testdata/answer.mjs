// Runs the core in Node, behind Node's WASI or behind the imports that another file makes:
// node answer.mjs MODULE SCRIPT REPLIES [FILE].
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { WASI } from "node:wasi";
import { replies } from "./replies.mjs";

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
writeFileSync(process.argv[4], replies(instance.exports, script));
