// Answers requests: what the core has from the core, as edge/fastpath.go does, and everything
// else from the origin.

import { identify, Limiter, nameClient } from "./client.js";
import { COMMON, describe, isForPrograms, problem, PROBLEM, versionServed } from "./fields.js";
import { Hops } from "./hops.js";
import { Origin } from "./pass.js";
import { Replica } from "./replica.js";

/** @import { Fields } from "./fields.js" */
/** @import { Context, Env } from "./replica.js" */

const PATHS = new Set([
	...["/next", "/prev", "/random", "/api", "/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random"],
	...["/api/categories", "/api/widget", "/api/leaderboard"],
]);
const MEMBER = /^\/api\/ring\/[0-9a-z-]+$/;
/** The longest target that the core is asked; the origin answers longer ones. */
const MOST_TARGET = 16 << 10;
const RATE_LIMIT = "120";
/** Bodies of less bytes become strings. */
const SHORT = 4 << 10;
/** How long the answer to a payment waits for this isolate to see what was paid for. */
const OWN_WRITES = 2_000;

const decoder = new TextDecoder();

/** A path without its percent encoding. @type {(path: string) => string} */
function decoded(path) {
	try {
		return decodeURIComponent(path);
	} catch {
		return path;
	}
}

export class Edge {
	#replica;
	#origin;
	#hops;
	#limiter;
	#build;

	/**
	 * @param {WebAssembly.Module} module the core
	 * @param {string} build eight hexadecimal digits that name the core in entity tags
	 * @param {Env} env
	 */
	constructor(module, build, env) {
		this.#build = build;
		this.#origin = new Origin(env);
		this.#replica = new Replica(module, env, this.#origin.ask);
		this.#hops = new Hops(this.#origin.ask);
		this.#limiter = new Limiter(Number(env.RATE_LIMIT ?? RATE_LIMIT));
	}

	/**
	 * Answers a request.
	 *
	 * @param {Request} request
	 * @param {Context} ctx
	 * @param {string | null} address of the client
	 * @returns {Promise<Response>}
	 */
	async answer(request, ctx, address) {
		const { headers, method, url } = request;
		const client = nameClient(address);
		const id = identify(headers);
		/** @type {Fields} */
		const fields = [...COMMON, ["X-Request-Id", id]];
		// The core sees the target as it was sent: a URL object would change its spelling.
		const target = url.slice(url.indexOf("/", url.indexOf("://") + 3));
		const query = target.indexOf("?");
		const path = query < 0 ? target : target.slice(0, query);
		if (this.#limiter.take(client, fields)) {
			const detail = "This client has used up its requests for now. Retry-After says in how many seconds it has new ones.";
			return problem(fields, path, this.#base(request), "rate_limited", detail);
		}
		const reads = method === "GET" || method === "HEAD";
		const known = PATHS.has(path) || MEMBER.test(path);
		// What a URL spells otherwise would be asked for at another path of the origin. There is nothing at such a path.
		const lost = !known && new URL(url).pathname !== path;
		if (reads && target.length <= MOST_TARGET && (known || lost) && versionServed(headers)) {
			const news = this.#replica.visit(ctx);
			if (news) await news;
			this.#replica.tick();
			const answer = this.#read(target, path, headers, method, ctx, fields);
			if (answer) return answer;
		}
		// What edges follow is not passed on: the voucher would name this node as the one that asks.
		if (/^\/+sync(\/|$)/i.test(decoded(path)))
			return problem(fields, path, this.#base(request), "not_found", "Nothing has this path. GET /api lists what there is.");
		const passed = this.#origin.pass(request, target, client, id, fields, this.#base(request));
		// What has been sent may cost money: it does not end with its client.
		if (!reads) ctx.waitUntil(passed);
		return reads ? passed : this.#seen(await passed, ctx);
	}

	/** @type {(target: string, path: string, headers: Headers, method: string, ctx: Context, fields: Fields) => Response | null} */
	#read(target, path, headers, method, ctx, fields) {
		const { guest } = this.#replica;
		if (!guest) return null;
		let a;
		try {
			a = guest.serve(target);
		} catch (error) {
			this.#replica.drop(error);
			return null;
		}
		// A search is the origin's: no core finds members by words.
		if (a.status === 503) return null;
		// Where people get a page, the origin sees who asks, and draws it.
		if (a.media === PROBLEM && !isForPrograms(path) && /text\/html/i.test(headers.get("Accept") ?? "")) return null;
		if (this.#replica.stale) fields.push(["Webring-Stale", "true"]);
		if (a.to > 0 && method === "GET" && this.#origin.secret) this.#hops.count(a.from, a.to, headers, ctx);
		const status = describe(fields, a, target, path, this.#build, headers.get("If-None-Match"));
		// A string costs a runtime less than bytes, and a record less than pairs. No name stands twice here.
		const body = a.body.length < SHORT ? decoder.decode(a.body) : a.body;
		return new Response(status === 304 ? null : body, { status, headers: Object.fromEntries(fields) });
	}

	/** Holds the answer to a payment until this isolate has reached its position. */
	async #seen(/** @type {Response} */ answer, /** @type {Context} */ ctx) {
		const seq = Number(answer.headers.get("Webring-Seq") ?? NaN);
		if (!answer.ok || Number.isNaN(seq)) return answer;
		answer.headers.delete("Webring-Stale");
		if (!(await this.#replica.reach(ctx, seq, Date.now() + OWN_WRITES))) answer.headers.set("Webring-Stale", "true");
		return answer;
	}

	/** What links begin with: before the first state is known, the address that was asked. */
	#base(/** @type {Request} */ request) {
		return this.#replica.baseURL || new URL(request.url).origin;
	}
}
