// Whose request it is, and how many are left to it in this isolate.

/** @import { Fields } from "./fields.js" */

const WINDOW = 60_000;
/** How many clients are counted at a time. */
const MOST_CLIENTS = 16_384;

/**
 * Names a client as edge/front does: an IPv4 address or an IPv6 /64. All without an address, which
 * the platform always gives, are one client: "local" in a voucher would be this node itself.
 *
 * @param {string | null} address
 */
export function nameClient(address) {
	if (!address) return "0.0.0.0";
	const text = address.replace(/%.*$/, "").toLowerCase();
	if (!text.includes(":")) return text;
	const [, mapped] = /^::ffff:([0-9.]+)$/.exec(text) ?? [];
	if (mapped) return mapped;
	const [front, back] = text.split("::");
	const groups = front === "" ? [] : front.split(":");
	const after = back ? back.split(":").length + (back.includes(".") ? 1 : 0) : 0;
	if (back !== undefined) while (groups.length + after < 8) groups.push("0");
	const upper = [...groups, ...(back ? back.split(":") : [])].slice(0, 4).map((g) => parseInt(g, 16).toString(16));
	while (upper.length > 0 && upper[upper.length - 1] === "0") upper.pop();
	return `${upper.join(":")}::/64`;
}

/**
 * Counts the requests of each client in windows of 60 seconds that its first request opens.
 * Its memory is bounded: when it is full, the oldest window is forgotten. A flood is for the
 * platform to stop.
 */
export class Limiter {
	/** @type {Map<string, {ends: number, count: number}>} */
	#windows = new Map();

	/** @param {number} limit requests in a window, 0 for no limit */
	constructor(limit) {
		if (!(limit >= 0)) throw new Error("RATE_LIMIT must be a number of requests in a minute, or 0 for no limit");
		this.limit = limit;
	}

	/**
	 * Counts a request, appends the fields that say how many are left, and says whether it is one too many.
	 *
	 * @param {string} client
	 * @param {Fields} fields
	 */
	take(client, fields) {
		if (this.limit <= 0) return false;
		const now = Date.now();
		let w = this.#windows.get(client);
		if (!w || w.ends <= now || w.ends > now + WINDOW) {
			this.#windows.delete(client); // so that the order is that of the windows
			if (this.#windows.size >= MOST_CLIENTS) this.#windows.delete(this.#windows.keys().next().value ?? "");
			w = { ends: now + WINDOW, count: 0 };
			this.#windows.set(client, w);
		}
		const exceeded = ++w.count > this.limit;
		const seconds = String(Math.ceil((w.ends - now) / 1000));
		if (exceeded) fields.push(["Retry-After", seconds]);
		fields.push(["RateLimit-Limit", String(this.limit)], ["RateLimit-Policy", `${this.limit};w=60`]);
		fields.push(["RateLimit-Remaining", String(Math.max(this.limit - w.count, 0))], ["RateLimit-Reset", seconds]);
		return exceeded;
	}
}

const FIELD = "X-Request-Id";
const TRACE = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.*)-)/;
let prefix = "";
let made = 0;

/** Gives the id under which a request is answered and passed on, as edge/front does. */
export function identify(/** @type {Headers} */ headers) {
	const id = headers.get(FIELD);
	if (id !== null && /^[0-9A-Za-z._-]{8,64}$/.test(id)) return id;
	const trace = headers.get("Traceparent");
	const [, named] = (trace !== null && TRACE.exec(trace)) || [];
	if (named) return named;
	if (prefix === "") {
		const letters = "abcdefghijklmnopqrstuvwxyz234567";
		prefix = `${Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => letters[b % 32]).join("")}-`;
	}
	return prefix + (++made).toString(36);
}
