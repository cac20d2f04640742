// Header fields of answers, as edge/fields.go has them.

import { createHash } from "node:crypto";

/** @import { Answer } from "./guest.js" */
/** @typedef {[string, string][]} Fields */

const API_VERSION = "1";
const EXPOSED =
	"ETag, Link, Location, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy, " +
	"WWW-Authenticate, Payment-Receipt, PAYMENT-REQUIRED, PAYMENT-RESPONSE, Api-Version, X-Request-Id, Webring-Seq, Webring-From, Webring-Stale, Deprecation, Sunset";

/** Those of every answer. @type {Fields} */
export const COMMON = [
	["Api-Version", API_VERSION],
	["Access-Control-Allow-Origin", "*"],
	["Access-Control-Expose-Headers", EXPOSED],
	["X-Content-Type-Options", "nosniff"],
];

export const MEDIA = ["application/json", "application/problem+json", "text/html; charset=utf-8"];
export const PROBLEM = 1;
const HTML = 2;
const NEVER = 0;
const TIMED = 2;
/** For how many seconds a client may use a document without asking again. */
const MAX_AGE = 5;
/** From this length on, lists come in content codings, too. */
const LEAST_CODED = 1024;
const LISTS = new Set(["/api/leaderboard", "/api/ring", "/api/categories", "/api"]);

/**
 * Makes fields into Headers. The runtime copies Headers in half the time in which it reads pairs. So
 * those of the last answer with the same names are kept, and only values that differ are set.
 */
export class Forms {
	/** @type {Map<string, {values: string[], headers: Headers}>} */
	#kept = new Map();

	/** Gives the Headers of an answer. They are to be copied at once. No name may stand twice. */
	headers(/** @type {Fields} */ fields) {
		let names = "";
		for (const [name] of fields) names += name;
		const form = this.#kept.get(names);
		if (!form) {
			const headers = new Headers(fields);
			this.#kept.set(names, { values: fields.map(([, value]) => value), headers });
			return headers;
		}
		for (let i = 0; i < fields.length; i++) {
			const [name, value] = fields[i];
			if (form.values[i] === value) continue;
			form.headers.set(name, value);
			form.values[i] = value;
		}
		return form.headers;
	}
}

/** Whether problems at a path are documents alone. At all others people get a page, which the origin draws. */
export const isForPrograms = (/** @type {string} */ path) => /^\/(api|mcp|sync)(\/|$)/.test(path);

/** Whether the request asks for the one version that there is, or for none. */
export function versionServed(/** @type {Headers} */ headers) {
	const version = headers.get("Api-Version");
	return version === null || version === API_VERSION;
}

/**
 * Appends the fields of an answer of the core, and gives its status: 304 when the client has it.
 *
 * @param {Fields} fields
 * @param {Answer} a
 * @param {string} target
 * @param {string} path of the target
 * @param {string} build names the core in entity tags
 * @param {Headers} headers of the request
 */
export function describe(fields, a, target, path, build, headers) {
	fields.push(["Webring-Seq", String(a.seq)]);
	if (a.unknown) fields.push(["Webring-From", "unknown"]);
	if (a.location) fields.push(["Location", a.location]);
	const links = [];
	if (a.next) links.push(`<${a.next}>; rel="next"`);
	if (a.prev) links.push(`<${a.prev}>; rel="prev"`);
	if (links.length > 0) fields.push(["Link", links.join(", ")]);
	if (a.validity === NEVER) {
		fields.push(["Cache-Control", "no-store"]);
	} else {
		a.tag ??= a.validity === TIMED ? `"${createHash("sha256").update(a.body).digest("hex").slice(0, 16)}"` : `"${build}-${a.seq}"`;
		// A second less, because a part of the present one may be over.
		const age = a.validity === TIMED ? Math.min(Math.max(a.until - a.second - 1, 0), MAX_AGE) : MAX_AGE;
		fields.push(["Cache-Control", `public, max-age=${age}, stale-while-revalidate=30, stale-if-error=86400`]);
		fields.push(["ETag", a.tag]);
		const coded = a.status === 200 && a.body.length >= LEAST_CODED && LISTS.has(path);
		if (coded) fields.push(["Vary", "Accept-Encoding"]);
		const ifNoneMatch = headers.get("If-None-Match");
		if (a.status === 200 && ifNoneMatch !== null && names(ifNoneMatch, a.tag)) return 304;
	}
	fields.push(["Content-Type", MEDIA[a.media]]);
	if (a.media === PROBLEM && !isForPrograms(path)) fields.push(["Vary", "Accept"]);
	if (a.media === HTML) fields.push(["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"]);
	return a.status;
}

/**
 * Says whether If-None-Match names a tag: in a list, weakly or strongly, or as "*" (RFC 9110, 13.1.2).
 *
 * @param {string} list
 * @param {string} tag
 */
function names(list, tag) {
	if (list.trim() === "*") return true;
	const element = /[ \t,]*(?:W\/)?("[^"]*")/y;
	for (let match = element.exec(list); match; match = element.exec(list)) {
		if (match[1] === tag) return true;
	}
	return false;
}
