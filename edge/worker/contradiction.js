// Whether a ring has signed one history, and the evidence that it has signed two, in the form of
// edge/tlog/contradiction.go.

import { Hashes, proven } from "./tiles.js";
import { base64 } from "./tree.js";

/** @import { Checkpoint } from "./note.js" */
/** @import { Get } from "./tiles.js" */

/** A ring that has signed two checkpoints that contradict each other. */
export class Contradiction extends Error {
	/** @param {string} evidence the file that proves it */
	constructor(evidence) {
		super("this ring has signed two histories: it shows another log than the one that it signed before");
		this.evidence = evidence;
	}
}

/**
 * Checks by the tiles of a later checkpoint that it continues an earlier one. It throws a
 * Contradiction if it does not, and another error if that cannot be known.
 *
 * @param {string} key verifiers, apart by white space or commas
 * @param {Checkpoint} earlier has no more events than later
 * @param {Checkpoint} later
 * @param {Get} get
 */
export async function continues(key, earlier, later, get) {
	if (earlier.size === 0 || (earlier.size === later.size && earlier.root === later.root)) return;
	const words = new Set(key.split(/[\s,]+/).filter(Boolean));
	const lines = ["webring/contradiction/v1", ...[...words].map((word) => `key ${word}`)];
	if (earlier.size < later.size) {
		const hashes = new Hashes(later.size, get);
		const proof = await hashes.prove(earlier.size);
		const [before, all] = proven(await hashes.of(0, earlier.size), proof, earlier.size, later.size).map(base64);
		if (all !== later.root) throw new Error("the tiles of the log do not lead to the signed root");
		if (before === earlier.root) return;
		lines.push(`root ${before}`, ...proof.map(base64));
	}
	throw new Contradiction([...lines, "", earlier.signed, later.signed].join("\n"));
}
