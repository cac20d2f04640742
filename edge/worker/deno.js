// The same edge under Deno: deno run --allow-net --allow-env --allow-read deno.js
import { createHash } from "node:crypto";

import { Edge } from "./edge.js";

const bytes = await Deno.readFile(new URL("../../wasm/module/built/core.wasm", import.meta.url));
const digest = createHash("sha256").update(bytes).digest("hex");
const build = createHash("sha256").update(digest).digest("hex").slice(0, 8);
const edge = new Edge(await WebAssembly.compile(bytes), build, Deno.env.toObject());
const [hostname, port] = (Deno.env.get("LISTEN") ?? "127.0.0.1:8787").split(":");
const ctx = { waitUntil: (promise) => void promise };
Deno.serve({ hostname, port: Number(port) }, (request, { remoteAddr }) => edge.answer(request, ctx, remoteAddr.hostname));
