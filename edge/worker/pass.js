// Sends requests to the origin, with a voucher for their client.

import { isForPrograms } from "./fields.js";
import { forPeople, problem } from "./problem.js";

/** @import { Fields } from "./fields.js" */
/** @import { Asked } from "./problem.js" */
/** @import { Env } from "./replica.js" */

/** The longest body that is passed on, in bytes: the origin takes no longer one. */
const MOST_BODY = 16 << 10;
/** A secret of at least 32 bytes. */
const SECRET = /^([0-9a-f]{2}){32,}$/i;
/** How long a read waits for the origin. What may cost money waits for as long as it takes. */
const PATIENCE = 10_000;
/** From here on a status is the platform's word that the origin cannot be reached. */
const PLATFORM = 520;

/** What a proxy before the origin says of it, if the answer has no field that all of the origin's have. */
const PROXY = new Set([502, 503, 504]);
const OWN = "Api-Version";

/** Fields of a request that are not passed on: other nodes write them for themselves. */
const NOT_SENT =
	/^(cf-.*|x-forwarded-.*|forwarded|x-real-ip|true-client-ip|host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-length|accept-encoding|x-request-id|webring-edge|webring-let-go|webring-to-leader)$/;
/** Fields of an answer that this node writes for itself. */
const NOT_GIVEN = /^(connection|keep-alive|transfer-encoding|x-request-id|ratelimit-.*)$/;

/** Where drafts are checked, which costs nothing. */
const CHECKS = new Set(["/api/check", "/join"]);
const SEND_AGAIN = "Send the same request with the same credential again: it has one effect, and its answer is kept.";
/** The name of a network (CAIP-2). */
const NETWORK = /^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/;

const encoder = new TextEncoder();
/** @type {(bytes: ArrayBuffer | Uint8Array) => string} base64url without padding */
const base64 = (bytes) =>
	btoa(String.fromCharCode(...new Uint8Array(/** @type {ArrayBuffer} */ (bytes))))
		.replaceAll("+", "-")
		.replaceAll("/", "_")
		.replace(/=+$/, "");

export class Origin {
	/** @type {CryptoKey | null} */
	#key = null;

	/** @param {Env} env is refused where nothing could be passed on with it */
	constructor({ ORIGIN, EDGE_SECRET }) {
		if (!/^https?:/.test(ORIGIN) || !URL.canParse(ORIGIN)) throw new Error("ORIGIN must be an address such as https://ring.example");
		this.url = ORIGIN.replace(/\/+$/, "");
		[this.secret = ""] = EDGE_SECRET?.trim().split(/\s+/) ?? [];
		if (this.secret && !SECRET.test(this.secret)) throw new Error("EDGE_SECRET must have at least 32 bytes in hexadecimal");
	}

	/**
	 * Writes a voucher, as edge/voucher describes it.
	 *
	 * @type {(client: string, scheme: string, method: string, target: string, body: Uint8Array<ArrayBuffer>) => Promise<string>}
	 */
	async #vouch(client, scheme, method, target, body) {
		if (!this.#key) {
			const secret = Uint8Array.from(this.secret.match(/[0-9a-f]{2}/gi) ?? [], (hex) => parseInt(hex, 16));
			this.#key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
		}
		const nonce = base64(crypto.getRandomValues(new Uint8Array(16)));
		const digest = base64(await crypto.subtle.digest("SHA-256", body));
		const now = Date.now();
		const lines = ["webring-edge 1", now, nonce, client, scheme, method, target, digest, ""].join("\n");
		const mac = base64(await crypto.subtle.sign("HMAC", this.#key, encoder.encode(lines)));
		return `t=${now}; n=${nonce}; c=${client}; s=${scheme}; m=${mac}`;
	}

	/**
	 * Sends a request to the origin. The target is spelled as a URL spells it, and so is it signed.
	 *
	 * @type {(client: string, scheme: string, target: string, init: RequestInit, headers: Headers, body: Uint8Array<ArrayBuffer>) => Promise<Response>}
	 */
	async send(client, scheme, target, init, headers, body) {
		const url = new URL(this.url + target);
		const method = init.method ?? "GET";
		if (this.secret) headers.set("Webring-Edge", await this.#vouch(client, scheme, method, url.pathname + url.search, body));
		headers.set("Accept-Encoding", "identity");
		const sent = body.length > 0 || method === "DELETE" ? body : undefined;
		return fetch(url.href, { ...init, headers, body: sent, redirect: "manual" });
	}

	/**
	 * Sends a request of this node's own.
	 *
	 * @type {import("./replica.js").Ask}
	 */
	ask = (path, init, body = new Uint8Array()) =>
		this.send("local", this.url.startsWith("https:") ? "https" : "http", path, init, new Headers(), body);

	/**
	 * Passes a request on, and gives the origin's answer.
	 *
	 * @param {Asked} asked
	 * @param {string} target
	 * @param {string} client
	 * @param {string} id of the request
	 * @param {Fields} fields of the answer, beside the origin's
	 * @param {() => Response | null} alone gives the answer to a read, if the origin gives none and this node has one
	 */
	async pass(asked, target, client, id, fields, alone) {
		const { request } = asked;
		const headers = new Headers({ "X-Request-Id": id });
		for (const [name, value] of request.headers) if (!NOT_SENT.test(name)) headers.set(name, value);
		if (asked.site) headers.set("Sec-Fetch-Site", asked.site);
		const reads = request.method === "GET" || request.method === "HEAD";
		const body = reads ? new Uint8Array() : await readBody(request);
		if (!body) return problem(asked, fields, "body_too_large", "A request body may have 16 KiB, without its content coding too.");
		const scheme = isSecure(request.url) ? "https" : "http";
		const patience = new AbortController();
		const late = reads ? setTimeout(() => patience.abort(new Error("no answer in time")), PATIENCE) : 0;
		let answer;
		try {
			answer = await this.send(client, scheme, target, { method: request.method, signal: patience.signal }, headers, body);
			const { status, headers: has } = answer;
			if (status >= PLATFORM || (PROXY.has(status) && !has.has(OWN))) {
				await answer.body?.cancel();
				throw new Error(`status ${status}`);
			}
		} catch (error) {
			console.error(`the origin does not answer ${id}: ${error}`);
			return (reads && alone()) || unanswered(asked, fields, headers, reads);
		} finally {
			clearTimeout(late);
		}
		const given = new Headers([...answer.headers].filter(([name]) => !NOT_GIVEN.test(name)));
		for (const [name, value] of fields) given.set(name, value);
		return new Response(answer.body, { status: answer.status, headers: given });
	}
}

/**
 * Says that the origin did not answer. A payment may have been taken: the same credential may
 * come again, and the origin then gives the answer that was lost.
 *
 * @param {Asked} asked
 * @param {Fields} fields
 * @param {Headers} sent
 * @param {boolean} reads
 */
function unanswered(asked, fields, sent, reads) {
	fields.push(["Retry-After", "5"]);
	const lost = "The origin of this ring was lost before it answered.";
	const { path, request } = asked;
	if (reads || CHECKS.has(path)) {
		const detail = "Only the origin of this ring has what is at this address, and it cannot be reached. Other reads go on.";
		// Documents for programs are described without origin_unavailable: an edge has them.
		const described = !reads || isForPrograms(path) || path.startsWith("/reports/") || path === "/feeds.opml" || forPeople(request, path);
		return problem(asked, fields, described ? "origin_unavailable" : "internal", detail);
	}
	// Whether a call brought a payment, its body says.
	if (path === "/mcp")
		return problem(
			asked,
			fields,
			"origin_unavailable",
			`${lost} Only it answers MCP. If the call brought a credential, send the same call again.`,
		);
	const signature = sent.get("PAYMENT-SIGNATURE");
	if (signature || sent.has("Authorization")) {
		const detail = `${lost} ${SEND_AGAIN}`;
		if (signature) fields.push(["PAYMENT-RESPONSE", undecided(signature, detail)]);
		return problem(asked, fields, "payment_pending", detail);
	}
	return problem(asked, fields, "payments_unavailable", `${lost} This request brought no payment and charges nothing. Reads go on.`);
}

/**
 * Says to an x402 client that the outcome of its payment is not known, as edge/forward/x402.go does.
 *
 * @type {(signature: string, detail: string) => string}
 */
function undecided(signature, detail) {
	let network = "";
	try {
		const named = JSON.parse(atob(signature.replaceAll("-", "+").replaceAll("_", "/"))).accepted.network;
		if (typeof named === "string" && NETWORK.test(named)) network = named;
	} catch {} // unreadable, as the origin will say
	return btoa(JSON.stringify({ success: false, errorReason: "settlement_pending", errorMessage: detail, transaction: "", network }));
}

/** Whether a payment may be asked for: over TLS, or on this machine, as where a Worker is developed. */
function isSecure(/** @type {string} */ url) {
	return /^(https:|http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/])/.test(url);
}

/** Reads a body, or gives null if it is too long. */
async function readBody(/** @type {Request} */ request) {
	if (Number(request.headers.get("Content-Length")) > MOST_BODY) return null;
	const body = new Uint8Array(MOST_BODY);
	let size = 0;
	for await (const chunk of request.body ?? []) {
		if (size + chunk.length > MOST_BODY) return null;
		body.set(chunk, size);
		size += chunk.length;
	}
	return body.slice(0, size);
}
