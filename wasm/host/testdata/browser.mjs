// Runs the core in a browser and sends back its replies to a script.
import { replies, start } from "./replies.mjs";

const get = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
const send = (path, body) => fetch(path, { method: "POST", body });

try {
  const core = start(await WebAssembly.compile(await get("/core.wasm")));
  await send("/replies", replies(core, await get("/script")));
} catch (error) {
  await send("/failed", String(error));
}
