// What an origin signs: a note as golang.org/x/mod/sumdb/note has it, whose text is a
// checkpoint as core/snap/checkpoint.go has it.

import { createHash } from "node:crypto";

/**
 * A key that is trusted, or that of a witness.
 *
 * @typedef {object} Key
 * @property {string} name
 * @property {string} id the name, and the hash in hexadecimal
 * @property {Uint8Array<ArrayBuffer>} raw
 */

/**
 * What was signed. Root is in base64, digests are in hexadecimal, time is in milliseconds
 * since 1970. Without a snapshot its digest is "" and its size 0.
 *
 * @typedef {object} Checkpoint
 * @property {string} signed
 * @property {number} size
 * @property {string} root
 * @property {number} time
 * @property {string} state
 * @property {string} core SHA-256 of the module
 * @property {{digest: string, bytes: number, size: number}} snapshot
 */

const ED25519 = 1;

/** Without bytes for what is no base64, or is misspelled. @type {(text: string) => Uint8Array<ArrayBuffer>} */
const fromBase64 = (text) => {
	try {
		const bytes = atob(text);
		return Uint8Array.from(btoa(bytes) === text ? bytes : "", (c) => c.charCodeAt(0));
	} catch {
		return new Uint8Array();
	}
};
/** @type {(bytes: Uint8Array) => string} */
export const toHex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/**
 * Reads verifiers, name+hash+key, separated by commas or white space.
 *
 * @param {string} text
 * @returns {Promise<Key[]>}
 */
export async function readKeys(text) {
	const words = (text ?? "").split(/[\s,]+/).filter(Boolean);
	if (words.length === 0) throw new Error("no verifier key is given");
	const keys = words.map((word) => readKey(word, ED25519));
	// It throws where the runtime does not know such keys.
	await Promise.all(keys.map(({ raw }) => imported(raw)));
	return keys;
}

/** Reads a key of a signature type, name+hash+key. @type {(word: string, type: number) => Key} */
export function readKey(word, type) {
	const parts = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(word);
	const bytes = fromBase64(parts?.[3] ?? "");
	if (!parts || bytes.length !== 33 || bytes[0] !== type) throw new Error(`${word} is no verifier key`);
	const [, name, hash] = parts;
	const digest = createHash("sha256").update(`${name}\n`).update(bytes).digest();
	if (toHex(digest.subarray(0, 4)) !== hash) throw new Error(`the verifier key ${word} is mistyped`);
	return { name, id: `${name}+${hash}`, raw: bytes.slice(1) };
}

const imported = (/** @type {Uint8Array<ArrayBuffer>} */ raw) =>
	crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);

/** @type {(key: Key, signature: Uint8Array<ArrayBuffer>, text: string) => Promise<boolean>} */
export const verify = async ({ raw }, signature, text) =>
	crypto.subtle.verify({ name: "Ed25519" }, await imported(raw), signature, new TextEncoder().encode(text));

/**
 * Reads a signed checkpoint. It throws unless one of the keys has signed it, and if a
 * signature by one of them is wrong.
 *
 * @param {string} signed
 * @param {Key[]} keys
 * @returns {Promise<Checkpoint>}
 */
export const open = async (signed, keys) => parse(await verified(signed, keys), signed, keys[0].name);

/**
 * Splits a note into its text, and signatures by the ids of their keys.
 *
 * @param {string} signed
 */
export function cut(signed) {
	const end = signed.lastIndexOf("\n\n") + 1;
	const lines = end > 0 ? signed.slice(end + 1).split("\n") : [""];
	if (lines.pop() !== "") throw new Error("checkpoint malformed: its last line has no end");
	const signatures = lines.map((line) => {
		const parts = /^\u2014 (\S+) ([A-Za-z0-9+/]+=*)$/.exec(line);
		const bytes = fromBase64(parts?.[2] ?? "");
		if (!parts || bytes.length < 5) throw new Error("checkpoint not signed with the origin's key: malformed");
		return { id: `${parts[1]}+${toHex(bytes.subarray(0, 4))}`, bytes: bytes.slice(4) };
	});
	return { text: signed.slice(0, end), signatures };
}

/**
 * Gives the text of a note that one of the keys has signed, and throws like open.
 *
 * @param {string} signed
 * @param {Key[]} keys
 */
export async function verified(signed, keys) {
	const { text, signatures } = cut(signed);
	let known = 0;
	for (const { id, bytes } of signatures) {
		const by = keys.find((key) => key.id === id);
		if (by && !(await verify(by, bytes, text))) throw new Error("checkpoint not signed with the origin's key: wrong signature");
		if (by) known++;
	}
	if (known === 0) throw new Error("checkpoint not signed with the origin's key");
	return text;
}

const NUMBER = "(0|[1-9][0-9]{0,15})";
/** The three lines of a checkpoint (C2SP tlog-checkpoint). */
export const CHECKPOINT = `([!-*,-~]{1,256})\n${NUMBER}\n([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)\n`;
const FORM = new RegExp(
	`^${CHECKPOINT}time ${NUMBER}\nstate ([0-9a-f]{32})\n` +
		`core ([0-9a-f]{64}) abi ${NUMBER}\n(?:snapshot ([0-9a-f]{64}) bytes ([1-9][0-9]{0,15}) size ${NUMBER}\n)?$`,
);

/**
 * @param {string} text
 * @param {string} signed
 * @param {string} name of the origin
 * @returns {Checkpoint}
 */
function parse(text, signed, name) {
	const fields = FORM.exec(text);
	if (!fields) throw new Error("checkpoint malformed");
	const [, origin, size, root, time, state, core, , digest = "", bytes = "0", at = "0"] = fields;
	if (origin !== name) throw new Error(`checkpoint of another origin: ${origin}`);
	const snapshot = { digest, bytes: Number(bytes), size: Number(at) };
	if (snapshot.size > Number(size)) throw new Error("checkpoint malformed: a snapshot of more events");
	return { signed, size: Number(size), root, time: Number(time), state, core, snapshot };
}

/**
 * Throws if a checkpoint cannot come after another, as far as the two texts show.
 *
 * @param {Checkpoint} to
 * @param {Checkpoint} at
 */
export function follows(to, at) {
	const events = `${to.size} events`;
	if (to.size < at.size) throw new Error(`checkpoint of a smaller ledger: ${events} after ${at.size}`);
	if (to.size > at.size) return;
	if (to.root !== at.root) throw new Error(`checkpoint of another history of ${events}`);
	if (to.time < at.time) throw new Error(`checkpoint older than the one at hand: of ${events}`);
	if (to.state !== at.state) throw new Error(`the fold does not reach the signed state of the same ${events}`);
}
