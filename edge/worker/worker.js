// The entry for Cloudflare Workers, and for workerd. The build puts the core beside it, and
// defines how entity tags name it.

import core from "./core.wasm";

import { Edge } from "./edge.js";

/** @import { Env } from "./replica.js" */

/** @type {Edge | undefined} of this isolate, made in its first request: before it there is no clock and no randomness */
let edge;

export default {
	/** @type {(request: Request, env: Env, ctx: ExecutionContext) => Promise<Response>} */
	fetch(request, env, ctx) {
		edge ??= new Edge(core, CORE_BUILD, env);
		return edge.answer(request, ctx, request.headers.get("CF-Connecting-IP"));
	},
};
