// Runs the core in a Worker and writes its replies to a script beside it.
import core from "core.wasm";
import script from "script";
import { replies, start } from "./replies.mjs";

export default {
  async test(_controller, { FOLDER }) {
    const body = replies(start(core), new Uint8Array(script));
    const { status } = await FOLDER.fetch("http://folder/replies", { method: "PUT", body });
    if (status >= 300) throw new Error(`the replies are not written: ${status}`);
  },
};
