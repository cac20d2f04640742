// Answers requests: what the core has from the core, as edge/fastpath.go does, and everything
// else from the origin.

import { identify, Limiter, nameClient } from "./client.js";
import { Documents } from "./documents.js";
import { COMMON, describe, Forms, PROBLEM, versionServed } from "./fields.js";
import { Hops } from "./hops.js";
import { asciiHosts } from "./hosts.js";
import { Origin } from "./pass.js";
import { explained, forPeople, problem } from "./problem.js";
import { Replica } from "./replica.js";

/** @import { Fields } from "./fields.js" */
/** @import { Answer } from "./guest.js" */
/** @import { Asked } from "./problem.js" */
/** @import { Context, Env } from "./replica.js" */

const PATHS = new Set([
	...["/next", "/prev", "/random", "/api", "/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random"],
	...["/api/categories", "/api/widget", "/api/leaderboard"],
]);
const MEMBER = /^\/api\/ring\/[0-9a-z-]+$/;
const MEMBER_PAGE = /^\/members\/([0-9a-z-]+)$/;
/** The log, and what is signed about it, which verifiers read. */
const LOG = /^\/(?:log\/.*|sync\/(?:checkpoint|cosigned|keys))$/;
const ICON = /^\/members\/[^/]+\/icon\.png$/;
/** The longest target that the core is asked; the origin answers longer ones. */
const MOST_TARGET = 16 << 10;
const RATE_LIMIT = "120";
/** How long the answer to a payment waits for this isolate to see what was paid for. */
const OWN_WRITES = 2_000;

/** A path without its percent encoding. @type {(path: string) => string} */
function decoded(path) {
	try {
		return decodeURIComponent(path);
	} catch {
		return path;
	}
}

/** Whether the core answers at a path. @type {(path: string) => boolean} */
const isKnown = (path) => PATHS.has(path) || MEMBER.test(path);

/** An origin as the page of a site has it, and that of a page which has none of its own. */
const ORIGIN = /^(?:[a-z][a-z0-9+.-]*:\/\/[^\s,/]+|null|file:\/\/\S*)$/i;
/** What pages of other sites may not send, or not under any name of this node. */
const CALLS = new Set(["/mcp", "/a2a"]);
const FORM = "/join";
/** Hosts that no stranger's name leads to. */
const OWN_HOST = /^(?:localhost|\d+(?:\.\d+){3}|\[.*\])$/;

/**
 * Says why a request from a browser to the MCP server or the agent is refused, as edge/mcp.go does: a page
 * of a stranger can point a host name of its own at this node.
 *
 * @type {(request: Request, base: string) => string}
 */
function foreignOrigin({ headers, url }, base) {
	if (!ORIGIN.test(headers.get("Origin") ?? ""))
		return "The request has an Origin field, which does not name one site. Ask from a page of a site, or without the field.";
	const { hostname } = new URL(url);
	if (hostname === new URL(base).hostname || OWN_HOST.test(hostname)) return "";
	return "The request has an Origin field, and its Host field is not this ring's. Use the ring's own address.";
}

/**
 * Whether a page of this ring has sent a form, as edge/pages.go says, by a request that says so by
 * Origin alone.
 *
 * @type {(request: Request, base: string) => boolean}
 */
function ownForm({ headers, url }, base) {
	const origin = headers.get("Origin") ?? "";
	return URL.canParse(origin) && [url, base].some((own) => new URL(own).host === new URL(origin).host);
}

export class Edge {
	#replica;
	#origin;
	#hops;
	#limiter;
	#icons;
	#readers;
	#build;
	#documents = new Documents();
	#forms = new Forms();

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
		this.#limiter = new Limiter(Number(env.RATE_LIMIT || RATE_LIMIT));
		this.#icons = new Limiter(10 * this.#limiter.limit); // a page may show many
		this.#readers = new Limiter(40 * this.#limiter.limit); // of the log
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
		/** @type {Asked} */
		const asked = { request, path, base: this.#base(request), links: () => this.#onward(path, asked.base) };
		const limiter = ICON.test(path) ? this.#icons : LOG.test(path) ? this.#readers : this.#limiter;
		if (limiter.take(client, fields)) {
			const detail = "This client has used up its requests for now. Retry-After says in how many seconds it has new ones.";
			return problem(asked, fields, "rate_limited", detail);
		}
		const reads = method === "GET" || method === "HEAD";
		if (method === "POST" && headers.has("Origin") && (CALLS.has(decoded(path)) || decoded(path) === FORM)) {
			const news = this.#replica.visit(ctx);
			if (news) await news;
			asked.base = this.#base(request);
			const why = decoded(path) === FORM ? "" : foreignOrigin(request, asked.base);
			if (why) return problem(asked, fields, "origin_not_allowed", why);
			// The origin does not know the name that this node was called by. It refuses the form, with its page.
			if (decoded(path) === FORM && !headers.get("Sec-Fetch-Site"))
				asked.site = ownForm(request, asked.base) ? "same-origin" : "cross-site";
		}
		const short = path.slice(0, -1);
		if (path.endsWith("/") && isKnown(short) && method !== "OPTIONS" && versionServed(headers)) {
			const news = this.#replica.visit(ctx);
			if (news) await news;
			if (this.#replica.stale) fields.push(["Webring-Stale", "true"]);
			// Relative, as edge/routes.go has it: a proxy may have taken a path off.
			const last = short.slice(short.lastIndexOf("/") + 1);
			fields.push(["Location", `../${last}${target.slice(path.length)}`], ["Cache-Control", "no-store"]);
			return new Response(null, { status: 308, headers: fields });
		}
		const known = isKnown(path);
		// What a URL spells otherwise would be asked for at another path of the origin. There is nothing at such a path.
		const lost = !known && new URL(url).pathname !== path;
		/** @type {Answer | null} what people are told if the origin, which draws it for them, is away */
		let told = null;
		if (reads && target.length <= MOST_TARGET && (known || lost) && versionServed(headers)) {
			const news = this.#replica.visit(ctx);
			if (news) await news;
			this.#replica.tick();
			asked.base = this.#base(request);
			const a = this.#serve(target);
			// A search is the origin's: no core finds members by words.
			if (a && a.status !== 503) {
				if (a.media !== PROBLEM || !forPeople(request, path)) return this.#answered(a, target, path, request, client, ctx, fields);
				told = a;
			}
		}
		// What this node shows of the ring is what it must have been signed, whatever the origin has signed since.
		if (reads && path === "/sync/checkpoint" && versionServed(headers)) {
			const news = this.#replica.visit(ctx);
			if (news) await news;
			const { guest, at } = this.#replica;
			fields.push(["Content-Type", "text/plain; charset=utf-8"], ["Cache-Control", "public, max-age=1"], ["Vary", "Accept"]);
			if (guest && at) return new Response(at.signed, { headers: fields });
			fields.length -= 3;
		}
		// Whatever else edges ask of an origin is not passed on, however it is spelled: it is this node's own to ask for.
		if (!(reads && LOG.test(path)) && [path, new URL(url).pathname].some((spelled) => /^\/+sync(\/|$)/i.test(decoded(spelled))))
			return problem(asked, fields, "not_found", "Nothing has this path. GET /api lists what there is.");
		const passed = this.#origin.pass(asked, target, client, id, fields, () => this.#alone(told, known, asked, fields));
		// What has been sent may cost money: it does not end with its client.
		if (!reads) ctx.waitUntil(passed);
		return reads ? passed : this.#seen(await passed, ctx);
	}

	/** Asks the core, if there is one that may answer. @type {(target: string) => Answer | null} */
	#serve(target) {
		const plain = asciiHosts(target);
		try {
			const { guest } = this.#replica;
			return guest && this.#documents.serve(guest, plain);
		} catch (error) {
			this.#replica.drop(error);
			return null;
		}
	}

	/** @type {(a: Answer, target: string, path: string, request: Request, client: string, ctx: Context, fields: Fields) => Response} */
	#answered(a, target, path, { headers, method }, client, ctx, fields) {
		if (this.#replica.stale) fields.push(["Webring-Stale", "true"]);
		if (a.to > 0 && method === "GET" && this.#origin.secret) this.#hops.count(a.from, a.to, client, headers, ctx);
		// Verifiers draw the same anew. Not every runtime says when an answer was made.
		fields.push(["Date", new Date(1000 * a.second).toUTCString()]);
		const status = describe(fields, a, target, path, this.#build, headers);
		return new Response(status === 304 ? null : a.body, { status, headers: this.#forms.headers(fields) });
	}

	/**
	 * What this node has to say to a read that the origin, which is away, would answer: what the
	 * core says is wrong with the address, null if that is nothing.
	 *
	 * @type {(told: Answer | null, known: boolean, asked: Asked, fields: Fields) => Response | null}
	 */
	#alone(told, known, asked, fields) {
		if (this.#replica.stale) fields.push(["Webring-Stale", "true"]);
		const [, slug] = MEMBER_PAGE.exec(asked.path) ?? [];
		const a = told ?? (slug ? this.#serve(`/api/ring/${slug}`) : null);
		if (a?.media === PROBLEM) {
			fields.push(["Webring-Seq", String(a.seq)]);
			return explained(asked, fields, a.status, a.body);
		}
		if (!known || this.#replica.guest) return null;
		fields.push(["Retry-After", "5"]);
		return problem(
			asked,
			fields,
			"internal",
			"This node of the ring does not follow it yet, and the origin of the ring cannot be reached.",
		);
	}

	/** Where people can go on from a page that is not there. @type {(path: string, base: string) => [string, string][]} */
	#onward(path, base) {
		/** @type {[string, string][]} */
		const links = [];
		const [, slug] = MEMBER_PAGE.exec(path) ?? [];
		const member = slug ? this.#serve(`/api/ring/${slug}`) : null;
		if (member?.status === 200) {
			const { name, url } = JSON.parse(new TextDecoder().decode(member.body)).member;
			if (/^https?:/.test(url)) links.push([url, name]);
		}
		links.push([`${base}/random`, "A random member"], [`${base}/`, "The ring"]);
		return links;
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
