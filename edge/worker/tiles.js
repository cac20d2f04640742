// How a log is read by its tiles (C2SP tlog-tiles): the paths, the records of bundles, and the hashes.

import { HASH, node, split } from "./tree.js";

/** @typedef {(path: string, most: number) => Promise<Uint8Array<ArrayBuffer>>} Get fetches at most so many bytes */

/** How many hashes a tile has, and entries a bundle, that is whole. */
export const WIDTH = 256;
/** How many levels of the tree a tile spans. */
const HEIGHT = 8;
/** How many bundles are fetched at a time. Their texts come with them, and a Worker has six connections. */
const AHEAD = 3;
/** The longest bundle: no event is longer than 8 KiB, and neither are its texts. */
const MOST_BUNDLE = WIDTH * (2 + (8 << 10));

/** The path of a tile or bundle. @type {(kind: string, n: number, width: number) => string} */
export function tilePath(kind, n, width) {
	const groups = [];
	for (let rest = n; rest > 0 || groups.length === 0; rest = Math.floor(rest / 1000)) groups.unshift(String(rest % 1000).padStart(3, "0"));
	const last = groups.pop();
	return `/log/${kind}/${groups.map((group) => `x${group}/`).join("")}${last}${width < WIDTH ? `.p/${width}` : ""}`;
}

/** Reads a bundle of so many entries, each after its length in two bytes. @type {(bundle: Uint8Array<ArrayBuffer>, width: number) => Uint8Array[]} */
export function entries(bundle, width) {
	const found = [];
	let at = 0;
	while (at + 2 <= bundle.length) {
		const end = at + 2 + bundle[at] * 256 + bundle[at + 1];
		found.push(bundle.subarray(at + 2, end));
		at = end;
	}
	if (at !== bundle.length || found.length !== width) throw new Error("events malformed, or too few");
	return found;
}

/**
 * Fetches records bundle by bundle. Of each it gives the events, and all as the core folds them.
 *
 * @param {Get} get
 * @param {number} from the number of the first
 * @param {number} to the number after the last, not beyond what is signed
 */
export async function* records(get, from, to) {
	const fetched = (/** @type {number} */ n) => {
		const width = Math.min(WIDTH, to - WIDTH * n);
		const read = async (/** @type {string} */ kind) => entries(await get(tilePath(kind, n, width), MOST_BUNDLE), width);
		const both = Promise.all([read("tile/entries"), read("texts")]);
		both.catch(() => {}); // who waits for it is told
		return both;
	};
	const line = [];
	let asked = Math.floor(from / WIDTH);
	for (let at = from; at < to; at += WIDTH - (at % WIDTH)) {
		for (; line.length < AHEAD && WIDTH * asked < to; asked++) line.push(fetched(asked));
		const [events, texts] = (await /** @type {ReturnType<typeof fetched>} */ (line.shift())).map((all) => all.slice(at % WIDTH));
		yield { events, range: ranged(events, texts) };
	}
}

/** Writes records as AppendRecord in core/snap/record.go does. @type {(events: Uint8Array[], texts: Uint8Array[]) => Uint8Array} */
function ranged(events, texts) {
	const parts = events.flatMap((event, i) => [event, texts[i]]);
	const range = new Uint8Array(parts.reduce((size, { length }) => size + 4 + length, 0));
	const view = new DataView(range.buffer);
	let at = 0;
	for (const part of parts) {
		view.setUint32(at, part.length);
		range.set(part, at + 4);
		at += 4 + part.length;
	}
	return range;
}

/** The hashes of a tree by its tiles, which say what they like: a proof shows whether they are the tree's. */
export class Hashes {
	#size;
	#get;
	/** @type {Map<string, Promise<Uint8Array>>} */
	#tiles = new Map();

	/**
	 * @param {number} size of the tree
	 * @param {Get} get
	 */
	constructor(size, get) {
		this.#size = size;
		this.#get = get;
	}

	/** @type {(level: number, n: number) => Promise<Uint8Array>} */
	#tile(level, n) {
		const width = Math.min(WIDTH, Math.floor(this.#size / WIDTH ** level) - WIDTH * n);
		const path = tilePath(`tile/${level}`, n, width);
		const held = this.#tiles.get(path);
		if (held) return held;
		const tile = this.#get(path, HASH * width).then((bytes) => {
			if (bytes.length !== HASH * width) throw new Error("a tile of the log is malformed");
			return bytes;
		});
		this.#tiles.set(path, tile);
		return tile;
	}

	/**
	 * The hash over entries from lo up to hi, a subtree that begins at lo.
	 *
	 * @type {(lo: number, hi: number) => Promise<Uint8Array>}
	 */
	async of(lo, hi) {
		const level = (hi - lo).toString(2).length - 1;
		if (2 ** level < hi - lo) {
			const middle = lo + 2 ** level;
			return node(...(await Promise.all([this.of(lo, middle), this.of(middle, hi)])));
		}
		const row = Math.floor(level / HEIGHT);
		const at = lo / WIDTH ** row;
		const tile = await this.#tile(row, Math.floor(at / WIDTH));
		/** @type {Uint8Array[]} */
		let hashes = Array.from({ length: 2 ** (level % HEIGHT) }, (_, i) => tile.subarray(HASH * ((at % WIDTH) + i)).subarray(0, HASH));
		while (hashes.length > 1) hashes = hashes.flatMap((left, i) => (i % 2 === 0 ? [node(left, hashes[i + 1])] : []));
		return hashes[0];
	}

	/**
	 * The consistency proof from the first m entries to all of them (RFC 6962, 2.1.2).
	 *
	 * @type {(m: number, lo?: number, hi?: number) => Promise<Uint8Array[]>}
	 */
	async prove(m, lo = 0, hi = this.#size) {
		if (m === hi) return lo === 0 ? [] : [await this.of(lo, hi)];
		const middle = lo + split(hi - lo);
		const [inner, outer] = await Promise.all(
			m <= middle ? [this.prove(m, lo, middle), this.of(middle, hi)] : [this.prove(m, middle, hi), this.of(lo, middle)],
		);
		return [...inner, outer];
	}
}

/**
 * What a consistency proof leads to: the roots of the first m entries and of all from lo up to hi.
 *
 * @param {Uint8Array} root of the first m
 * @param {Uint8Array[]} proof
 * @param {number} m
 * @param {number} hi
 * @returns {[Uint8Array, Uint8Array]}
 */
export function proven(root, proof, m, hi, lo = 0) {
	const [last] = proof.slice(-1);
	if (m === hi) return lo === 0 ? [root, root] : [last, last];
	const middle = lo + split(hi - lo);
	const [old, all] = m <= middle ? proven(root, proof.slice(0, -1), m, middle, lo) : proven(root, proof.slice(0, -1), m, hi, middle);
	return m <= middle ? [old, node(all, last)] : [node(last, old), node(last, all)];
}
