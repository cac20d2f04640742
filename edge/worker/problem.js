// Problems that the Worker itself finds, or that the core found while the origin, which draws
// pages, is away: documents for programs, and plain pages for people.

import { createHash } from "node:crypto";

import { isForPrograms, MEDIA, PROBLEM } from "./fields.js";

/** @import { Fields } from "./fields.js" */

/** Status and title of each code, as in core/api. */
const PROBLEMS = {
	origin_not_allowed: { status: 403, title: "Pages of this origin may not call here" },
	not_found: { status: 404, title: "Nothing is at this address" },
	body_too_large: { status: 413, title: "The request body is too large" },
	rate_limited: { status: 429, title: "Too many requests" },
	internal: { status: 500, title: "Something went wrong here" },
	payment_pending: { status: 503, title: "A payment is being settled" },
	payments_unavailable: { status: 503, title: "Payments are unavailable at the moment" },
	origin_unavailable: { status: 503, title: "The origin of this ring cannot be asked at the moment" },
};
/** The headings of pages, where titles are for programs. @type {Record<string, string>} */
const HEADINGS = { origin_unavailable: "Out of reach at the moment" };

/**
 * A request that has no other answer: its path as it was sent, what links begin with, and
 * links, as addresses and words, that people may follow instead.
 *
 * @typedef {object} Asked
 * @property {Request} request
 * @property {string} path
 * @property {string} base
 * @property {() => [string, string][]} links
 * @property {string} [site] what this node says of the page that has sent it, for Sec-Fetch-Site
 */

/**
 * Makes an answer of a problem (RFC 9457).
 *
 * @param {Asked} asked
 * @param {Fields} fields
 * @param {keyof typeof PROBLEMS} code
 * @param {string} detail
 */
export function problem(asked, fields, code, detail) {
	const { status, title } = PROBLEMS[code];
	const document = { type: `${asked.base}/problems/${code}`, title, status, detail, code };
	return explained(asked, fields, status, JSON.stringify(document));
}

/**
 * Answers with a problem document, or with a page that says the same.
 *
 * @param {Asked} asked
 * @param {Fields} fields
 * @param {number} status
 * @param {BodyInit} document
 */
export function explained(asked, fields, status, document) {
	const { request, path, links } = asked;
	fields.push(["Cache-Control", "no-store"]);
	if (!isForPrograms(path)) fields.push(["Vary", "Accept"]);
	if (!forPeople(request, path)) {
		fields.push(["Content-Type", MEDIA[PROBLEM]]);
		return new Response(document, { status, headers: fields });
	}
	const body = typeof document === "string" ? document : new TextDecoder().decode(/** @type {Uint8Array} */ (document));
	const { title, detail, code } = JSON.parse(body);
	const heading = HEADINGS[code] ?? title;
	/** @type {[string, string][]} */
	const again = status >= 429 && request.method === "GET" ? [["", "Try again"]] : [];
	fields.push(["Content-Type", "text/html; charset=utf-8"], ["Content-Security-Policy", policy()]);
	return new Response(page(heading, detail, again.concat(links())), { status, headers: fields });
}

/** Whether a problem is shown as a page. @type {(request: Request, path: string) => boolean} */
export const forPeople = (request, path) => !isForPrograms(path) && prefersHTML(request.headers.get("Accept") ?? "");

/** Whether Accept gives text/html a higher weight than what programs read (RFC 9110, 12.5.1), as edge/pages/errorpage.go says. */
function prefersHTML(/** @type {string} */ accept) {
	let [html, other, nearest] = [0, 0, 0];
	for (const element of accept.toLowerCase().split(",")) {
		const [media, ...parameters] = element.split(";").map((part) => part.trim());
		const q = parameters.find((p) => /^q[ \t]*=/.test(p));
		const weight = q === undefined ? 1 : Number(/^q[ \t]*=[ \t]*([01](\.\d{0,3})?)$/.exec(q)?.[1] ?? 0);
		if (media === "text/html") html = Math.max(html, weight);
		if (media === "text/markdown" || media === "application/json") other = Math.max(other, weight);
		const near = ["*/*", "application/*", "application/problem+json"].indexOf(media) + 1;
		if (near > nearest) [other, nearest] = [Math.max(other, weight), near];
	}
	return html > other;
}

const STYLE =
	":root{color-scheme:light dark}body{max-width:36rem;margin:12vh auto;padding:0 1.25rem;font:1.0625rem/1.6 system-ui,sans-serif}h1{font-size:1.6rem;line-height:1.25}li{padding:.2rem 0}";
let hash = "";

function policy() {
	hash ||= createHash("sha256").update(STYLE).digest("base64");
	return `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; frame-ancestors 'none'`;
}

/** @type {(heading: string, detail: string, links: [string, string][]) => string} */
function page(heading, detail, links) {
	const list = links.map(([to, words]) => `<li><a href="${escaped(to)}" rel="noopener"><bdi>${escaped(words)}</bdi></a></li>`).join("");
	return (
		'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">' +
		`<title>${escaped(heading)}</title><style>${STYLE}</style></head><body><main><h1>${escaped(heading)}</h1><p>${escaped(detail)}</p>` +
		`<ul>${list}</ul></main></body></html>`
	);
}

/** @type {(text: string) => string} */
const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
