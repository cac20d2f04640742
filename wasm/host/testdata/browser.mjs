// Runs the core in a browser, with the imports that the page /verify gives it, and sends back
// its replies to a script.
import { replies } from "/replies.mjs";
import { imports } from "/wasi.js";

const get = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
const send = (path, body) => fetch(path, { method: "POST", body });

try {
  let instance;
  const wasi = imports(() => instance.exports.memory.buffer, console.error);
  ({ instance } = await WebAssembly.instantiate(await get("/core.wasm"), { wasi_snapshot_preview1: wasi }));
  instance.exports._initialize();
  await send("/replies", replies(instance.exports, await get("/script")));
} catch (error) {
  await send("/failed", String(error));
}
