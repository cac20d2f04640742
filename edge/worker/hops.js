// Counts redirects by members and reports them to the origin, as edge/hops does; a report is
// encoded as edge/hops/report.go has it. An isolate has no end at which it could report the rest. So it
// reports soon after the first hop of a row of hops, while the request of that hop may be prolonged.

import words from "../hops/crawlers.json" with { type: "json" };

/** @import { Context, Ask } from "./replica.js" */

const DELAY = 15_000;
const MOST_COUNTS = 1000;
const MOST_AGENTS = 4096;
const MOST_VISITORS = 1 << 16;
const DAY = 86_400_000;
const HOUR = 3_600_000;
/** The status by which the origin says that it does not want a report, now or later. */
const REFUSED = 422;

/** @type {(bytes: number[], n: number) => void} appends a varint */
function append(bytes, n) {
	for (; n >= 128; n = Math.floor(n / 128)) bytes.push((n % 128) + 128);
	bytes.push(n);
}

/**
 * Tells which clients have been counted in the present hour, for which members. It keeps hashes
 * with a key that is made anew each hour and kept nowhere. When it is full, the oldest hash is
 * forgotten, and its client may be counted once more.
 */
class Visitors {
	#hour = -1;
	#key = new Uint32Array(2);
	/** @type {Set<number>} */
	#seen = new Set();

	/** Whether a client has not been counted yet, and notes that it is now. @type {(visit: string, now: number) => boolean} */
	first(visit, now) {
		const hour = Math.floor(now / HOUR);
		if (hour !== this.#hour) {
			this.#hour = hour;
			this.#seen.clear();
			crypto.getRandomValues(this.#key);
		}
		const hash = this.#hash(visit);
		if (this.#seen.has(hash)) return false;
		if (this.#seen.size >= MOST_VISITORS)
			for (const oldest of this.#seen.values()) {
				this.#seen.delete(oldest);
				break;
			}
		this.#seen.add(hash);
		return true;
	}

	/** A number of 53 bits. @type {(text: string) => number} */
	#hash(text) {
		let [a, b] = this.#key;
		for (let i = 0; i < text.length; i++) {
			const c = text.charCodeAt(i);
			a = Math.imul(a ^ c, 0x9e3779b1) ^ (b >>> 15);
			b = Math.imul(b ^ c, 0x85ebca77) ^ (a >>> 13);
		}
		return (b >>> 11) * 2 ** 32 + (a >>> 0);
	}
}

export class Hops {
	/** @type {Map<number, {hops: number, counts: Map<number, {from: number, to: number}>}>} by day, and then by row plus 1 */
	#days = new Map();
	#number = 0;
	/** @type {Uint8Array<ArrayBuffer> | null} the last report, until it has been received */
	#frozen = null;
	#due = 0; // when the next report is sent; 0 if none is to be
	/** @type {Uint8Array | null} */
	#sender = null;
	/** @type {Map<string, boolean>} */
	#crawlers = new Map();
	#visitors = new Visitors();
	#ask;

	/** @param {Ask} ask */
	constructor(ask) {
		this.#ask = ask;
	}

	/**
	 * Counts a hop of a client from one row to another, each plus 1, with 0 for none: for each of
	 * the two members once an hour, and in all where it counts for the member that it leads to.
	 *
	 * @param {number} from
	 * @param {number} to
	 * @param {string} client
	 * @param {Headers} headers of the request
	 * @param {Context} ctx of the request
	 */
	count(from, to, client, headers, ctx) {
		if (headers.has("Sec-Purpose") || headers.has("Purpose") || this.#isCrawler(headers.get("User-Agent") ?? "")) return;
		const now = Date.now();
		const sides = /** @type {[number, "from" | "to"][]} */ ([
			[from, "from"],
			[to, "to"],
		]).filter(([row, side]) => row > 0 && this.#visitors.first(`${side} ${row} ${client}`, now));
		if (sides.length === 0) return;
		const today = Math.floor(now / DAY);
		let day = this.#days.get(today);
		if (!day) this.#days.set(today, (day = { hops: 0, counts: new Map() }));
		for (const [row, side] of sides) {
			if (side === "to") day.hops++;
			let count = day.counts.get(row);
			if (!count) day.counts.set(row, (count = { from: 0, to: 0 }));
			count[side]++;
		}
		// The request that was to report may have been ended: then another one does.
		if (this.#due === 0 || now > this.#due + DELAY) {
			this.#due = now + DELAY;
			ctx.waitUntil(new Promise((done) => setTimeout(done, DELAY)).then(() => this.#report()));
		}
	}

	/** Whether a User-Agent is that of a crawler. */
	#isCrawler(/** @type {string} */ agent) {
		let known = this.#crawlers.get(agent);
		if (known === undefined) {
			const lower = agent.toLowerCase();
			known = !words.forUsers.some((w) => lower.includes(w)) && words.crawlers.some((w) => lower.includes(w));
			if (this.#crawlers.size >= MOST_AGENTS) this.#crawlers.clear();
			this.#crawlers.set(agent, known);
		}
		return known;
	}

	/** Sends all that was counted. What is not received is sent again later. */
	async #report() {
		this.#due = 0;
		try {
			while (this.#freeze() && this.#frozen) {
				const sent = this.#frozen;
				const headers = { "Content-Type": "application/octet-stream" };
				const response = await this.#ask("/sync/hops", { method: "POST", headers, signal: AbortSignal.timeout(10_000) }, sent);
				await response.body?.cancel();
				const { status } = response;
				if (status >= 300 && status !== REFUSED) throw new Error(`status ${status}`);
				if (this.#frozen === sent) this.#frozen = null;
				if (status === REFUSED) console.error("a report of hops was refused, and is given up");
			}
		} catch (error) {
			console.error(`hops are not received: ${error}`);
		}
	}

	/** Makes the next report, unless the one before is still to be received, and says whether there is one. */
	#freeze() {
		if (this.#frozen) return true;
		const [first] = this.#days;
		if (!first) return false;
		const [number, day] = first;
		this.#sender ??= crypto.getRandomValues(new Uint8Array(16));
		const counts = [...day.counts].sort(([a], [b]) => a - b).slice(0, MOST_COUNTS);
		/** @type {number[]} */
		const report = [1, ...this.#sender];
		for (const n of [++this.#number, number, day.hops, counts.length]) append(report, n);
		let before = 0;
		for (const [row, { from, to }] of counts) {
			for (const n of [row - before, from, to]) append(report, n);
			before = row;
			day.counts.delete(row);
		}
		day.hops = 0;
		if (day.counts.size === 0) this.#days.delete(number);
		this.#frozen = Uint8Array.from(report);
		return true;
	}
}
