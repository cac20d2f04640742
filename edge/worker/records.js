// What must come of records, and how a failure is told: shared by the Worker and the page /verify.

/** @import { Guest } from "./guest.js" */
/** @import { Checkpoint } from "./note.js" */
/** @import { Tree } from "./tree.js" */

export const MOST_NOTE = 8 << 10;

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
