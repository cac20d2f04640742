// The RFC 6962 tree over the bytes of events, reduced to its right edge, as core/snap/tree.go
// has it.

import { createHash } from "node:crypto";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);
export const HASH = 32;

/** @type {(...parts: Uint8Array[]) => Uint8Array} */
function sha256(...parts) {
	const hash = createHash("sha256");
	for (const part of parts) hash.update(part);
	return hash.digest();
}

/** The hash over two subtrees. */
export const node = (/** @type {Uint8Array[]} */ ...both) => sha256(NODE, ...both);

/** The largest power of two below n, which is more than 1. */
export const split = (/** @type {number} */ n) => 2 ** ((n - 1).toString(2).length - 1);

export const base64 = (/** @type {Uint8Array} */ hash) => btoa(String.fromCharCode(...hash));

/** The levels of the full subtrees of a tree of this size, the largest first. */
function levels(/** @type {number} */ size) {
	const bits = size.toString(2);
	return [...bits].flatMap((bit, i) => (bit === "1" ? [bits.length - 1 - i] : []));
}

/** How many bytes the right edge of a tree of this size has. */
export const edgeLength = (/** @type {number} */ size) => HASH * levels(size).length;

export class Tree {
	size = 0;
	/** @type {Uint8Array[]} the roots of full subtrees, by level */
	#full = [];

	/**
	 * @param {number} size
	 * @param {Uint8Array} edge of edgeLength(size) bytes: the roots of the full subtrees, the largest first
	 */
	static of(size, edge) {
		const tree = new Tree();
		tree.size = size;
		levels(size).forEach((level, i) => {
			tree.#full[level] = edge.slice(HASH * i, HASH * (i + 1));
		});
		return tree;
	}

	clone() {
		const tree = new Tree();
		tree.size = this.size;
		tree.#full = [...this.#full];
		return tree;
	}

	/** Adds the next event. */
	add(/** @type {Uint8Array} */ event) {
		let hash = sha256(LEAF, event);
		let level = 0;
		for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2) hash = node(this.#full[level++], hash);
		this.#full[level] = hash;
		this.size++;
	}

	/** The tree hash, in base64. */
	root() {
		const full = levels(this.size).map((level) => this.#full[level]);
		const root = full.length === 0 ? sha256() : full.reduceRight((right, left) => node(left, right));
		return base64(root);
	}
}
