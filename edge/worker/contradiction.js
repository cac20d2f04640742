// The evidence that a ring has signed two histories, in the form of edge/tlog/contradiction.go.

import { createHash } from "node:crypto";

/** @import { Checkpoint } from "./note.js" */

/** A ring that has signed two checkpoints that contradict each other. */
export class Contradiction extends Error {
	/** @param {string} evidence the file that proves it */
	constructor(evidence) {
		super("this ring has signed two histories: it shows another ledger than the one that it signed before");
		this.evidence = evidence;
	}
}

const HASH = 32;
const WIDTH = 256;
const NODE = Uint8Array.of(1);
const base64 = (/** @type {Uint8Array} */ hash) => btoa(String.fromCharCode(...hash));

/** The path of a tile of leaf hashes. @type {(n: number, width: number) => string} */
function tilePath(n, width) {
	const groups = [];
	for (let rest = n; rest > 0 || groups.length === 0; rest = Math.floor(rest / 1000)) groups.unshift(String(rest % 1000).padStart(3, "0"));
	const last = groups.pop();
	return `/log/tile/0/${groups.map((g) => `x${g}/`).join("")}${last}${width < WIDTH ? `.p/${width}` : ""}`;
}

/** The tree hash over leaf hashes (RFC 6962, 2.1). @type {(leaves: Uint8Array[]) => Uint8Array} */
function root(leaves) {
	if (leaves.length === 1) return leaves[0];
	const k = split(leaves.length);
	return createHash("sha256")
		.update(NODE)
		.update(root(leaves.slice(0, k)))
		.update(root(leaves.slice(k)))
		.digest();
}

/** The largest power of two below n, which is more than 1. */
const split = (/** @type {number} */ n) => 2 ** Math.floor(Math.log2(n - 1));

/**
 * The consistency proof from the first m of leaves to all of them (RFC 6962, 2.1.2).
 *
 * @param {number} m
 * @param {Uint8Array[]} leaves
 * @param {boolean} whole
 * @returns {Uint8Array[]}
 */
function proof(m, leaves, whole = true) {
	if (m === leaves.length) return whole ? [] : [root(leaves)];
	const k = split(leaves.length);
	const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
	return m <= k ? [...proof(m, left, whole), root(right)] : [...proof(m - k, right, false), root(left)];
}

/**
 * Makes the file that proves that one of the keys has signed two histories.
 *
 * @param {string} key verifiers, apart by white space or commas
 * @param {Checkpoint} earlier has no more events than later
 * @param {Checkpoint} later
 * @param {(path: string) => Promise<Uint8Array>} get fetches a tile of the later one
 */
export async function contradiction(key, earlier, later, get) {
	const lines = ["webring/contradiction/v1", ...key.split(/[\s,]+/).map((word) => `key ${word}`)];
	if (earlier.size < later.size) {
		/** @type {Uint8Array[]} */
		const leaves = [];
		while (leaves.length < later.size) {
			const width = Math.min(WIDTH, later.size - leaves.length);
			const tile = await get(tilePath(leaves.length / WIDTH, width));
			if (tile.length !== HASH * width) throw new Error("a tile of the log is malformed");
			for (let at = 0; at < tile.length; at += HASH) leaves.push(tile.subarray(at, at + HASH));
		}
		if (base64(root(leaves)) !== later.root) throw new Error("the tiles of the log do not lead to the signed root");
		lines.push(`root ${base64(root(leaves.slice(0, earlier.size)))}`, ...proof(earlier.size, leaves).map(base64));
	}
	return [...lines, "", earlier.signed, later.signed].join("\n");
}
