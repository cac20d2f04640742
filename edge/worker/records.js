// Ranges of records, what must come of them, and how a failure is told: shared by the Worker and
// the page /verify.

/** @import { Guest } from "./guest.js" */
/** @import { Checkpoint } from "./note.js" */
/** @import { Tree } from "./tree.js" */

/** How many events a range has at most; it ends where their number is a multiple of this. */
export const BLOCK = 1024;
export const MOST_RANGE = 16 << 20;
export const MOST_NOTE = 8 << 10;

/**
 * Adds the events of a range to a tree that ends where the range begins, and gives the part
 * of the range that does not go beyond size.
 *
 * @param {Uint8Array<ArrayBuffer>} range
 * @param {Tree} tree
 * @param {number} size
 */
export function read(range, tree, size) {
	const view = new DataView(range.buffer, range.byteOffset, range.length);
	let at = 0;
	for (let n = Math.min(size - tree.size, BLOCK); n > 0 && at < range.length; n--) {
		if (at + 8 > range.length) throw new Error("events malformed");
		const end = at + 4 + view.getUint32(at);
		if (end + 4 > range.length) throw new Error("events malformed");
		tree.add(range.subarray(at + 4, end));
		at = end + 4 + view.getUint32(end);
	}
	if (at === 0 || at > range.length) throw new Error("events malformed, or none");
	return range.subarray(0, at);
}

export function fold(/** @type {Guest} */ guest, /** @type {Uint8Array} */ range) {
	try {
		guest.apply(range);
	} catch (error) {
		throw new Error("events that the checkpoint does not sign, or that this core does not fold", { cause: error });
	}
}

export function checkRoot(/** @type {Tree} */ tree, /** @type {Checkpoint} */ to) {
	if (tree.root() !== to.root) throw new Error(`events that the checkpoint does not sign: at ${to.size} the root is another`);
}

export function checkState(/** @type {Guest} */ guest, /** @type {Checkpoint} */ to) {
	if (guest.seq !== to.size || guest.digest() !== to.state) {
		throw new Error(`the fold does not reach the signed state of ${to.size} events`);
	}
}

/** Says what is wrong. @type {(error: unknown) => string} */
export const explain = (error) =>
	error instanceof Error ? error.message + (error.cause ? `: ${explain(error.cause)}` : "") : String(error);

export const sleep = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));
