// One instance of the core, and its entry: core/abi/call.go says what each operation takes
// and gives, and core/abi/response.go how an answer is encoded.

import { imports } from "./wasi.js";

const VERSION = 9;
const op = { version: 0, open: 1, apply: 2, advance: 3, rewind: 4, serve: 5, baseURL: 6, digest: 7, load: 12, piece: 13, loaded: 14 };

/** How many members may ever join: more than any origin's bound, which is the one that counts. */
const CAPACITY = 50_000_000n;
/** Set in the argument of apply: texts must be those that their events commit to. */
const VERIFY = 1n;
/** How many bytes a call may pass without asking the guest for memory. */
const SMALL = 65_536;
const REPLY_HEADER = 25;
const RESPONSE_HEADER = 52;
/** By how many seconds the clock may go back before the core's follows it. */
const BACKSTEP = 5;
const HIGH = 2 ** 32;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * An answer of the core. Numbers of seconds are since 1970; from and to are rows plus 1.
 *
 * @typedef {object} Answer
 * @property {number} status
 * @property {number} media 0 for JSON, 1 for a problem, 2 for HTML
 * @property {number} validity 0 for never, 1 for the position, 2 for since and until, too
 * @property {number} seq
 * @property {number} second
 * @property {number} since
 * @property {number} until
 * @property {number} from
 * @property {number} to
 * @property {boolean} unknown
 * @property {string} location
 * @property {string} next
 * @property {string} prev
 * @property {Uint8Array<ArrayBuffer>} body
 * @property {string} [tag] names the body, once it was asked for
 */

export class Guest {
	/** The records applied, and the clock in seconds since 1970. */
	seq = 0;
	second = 0;

	#said = "";
	#random = new BigUint64Array(64);
	#drawn = 64;

	/** @param {WebAssembly.Module} module */
	constructor(module) {
		const wasi = imports(
			() => this.memory.buffer,
			(text) => {
				this.#said = (this.#said + text).slice(0, 1024);
			},
		);
		const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
		this.memory = /** @type {WebAssembly.Memory} */ (exports.memory);
		this.#input = /** @type {(size: number) => number} */ (exports.input);
		this.#call = /** @type {(op: number, arg: bigint, size: number) => bigint} */ (exports.call);
		/** @type {() => void} */ (exports._initialize)();
		this.#small = this.#input(SMALL) >>> 0;
		this.#bytes = new Uint8Array(this.memory.buffer);
		this.#view = new DataView(this.memory.buffer);
		const version = this.#text(op.version, 4).getUint32(0, true);
		if (version === VERSION) this.#perform(op.open, CAPACITY, 0);
		else throw new Error(`the core's entry has version ${version}, this Worker knows ${VERSION}`);
	}
	#input;
	#call;
	#small;
	#bytes;
	#view;

	/**
	 * Performs an operation on size bytes that lie in the guest. It throws if the guest has
	 * trapped, after which it must not be used, or if it refuses.
	 *
	 * @param {number} operation
	 * @param {bigint} arg
	 * @param {number} size
	 * @returns {{at: number, length: number}} where the reply's rest lies
	 */
	#perform(operation, arg, size) {
		let where;
		try {
			where = this.#call(operation, arg, size);
		} catch (error) {
			throw new Error(`the core has failed: ${error}; it said: ${this.#said}`);
		}
		const length = Number(where & 0xffff_ffffn);
		const at = Number((where >> 32n) & 0xffff_ffffn);
		if (this.#view.buffer !== this.memory.buffer) {
			this.#bytes = new Uint8Array(this.memory.buffer);
			this.#view = new DataView(this.memory.buffer);
		}
		this.seq = this.#number(at + 1);
		this.second = this.#number(at + 9);
		const rest = { at: at + REPLY_HEADER, length: length - REPLY_HEADER };
		if (this.#bytes[at] !== 0) throw new Error(`refused: ${this.#string(rest.at, Math.min(rest.length, 200))}`);
		return rest;
	}

	/**
	 * @param {number} operation
	 * @param {number} size
	 */
	#text(operation, size) {
		const { at, length } = this.#perform(operation, 0n, 0);
		if (size !== length) throw new Error(`${length} bytes come from operation ${operation}`);
		return new DataView(this.memory.buffer, at, length);
	}

	/** @param {number} at of an i64 */
	#number(at) {
		return this.#view.getInt32(at + 4, true) * HIGH + this.#view.getUint32(at, true);
	}

	/** @type {(at: number, length: number) => string} */
	#string(at, length) {
		return length === 0 ? "" : decoder.decode(this.#bytes.subarray(at, at + length));
	}

	/** Begins to load a snapshot of size bytes. */
	load(/** @type {number} */ size) {
		this.#perform(op.load, BigInt(size), 0);
	}

	/** Takes the next bytes of the snapshot. */
	piece(/** @type {Uint8Array} */ bytes) {
		for (let at = 0; at < bytes.length; at += SMALL) {
			const part = bytes.subarray(at, at + SMALL);
			this.#bytes.set(part, this.#small);
			this.#perform(op.piece, 0n, part.length);
		}
	}

	/** Starts from the snapshot, all of which was taken. */
	loaded() {
		this.#perform(op.loaded, 0n, 0);
	}

	/** Folds a range of records, with texts that their events commit to. */
	apply(/** @type {Uint8Array} */ range) {
		const at = range.length > SMALL ? this.#input(range.length) >>> 0 : this.#small;
		new Uint8Array(this.memory.buffer, at, range.length).set(range);
		this.#perform(op.apply, VERIFY, range.length);
	}

	/** Brings the clock to the present, or leaves it where it is, a little ahead. */
	tick(/** @type {number} */ second) {
		if (second > this.second) this.#perform(op.advance, BigInt(second), 0);
		else if (second < this.second - BACKSTEP) this.#perform(op.rewind, BigInt(second), 0);
	}

	/** Gives the digest of the state, in hexadecimal. */
	digest() {
		const v = this.#text(op.digest, 16);
		return v.getBigUint64(0).toString(16).padStart(16, "0") + v.getBigUint64(8).toString(16).padStart(16, "0");
	}

	baseURL() {
		const { at, length } = this.#perform(op.baseURL, 0n, 0);
		return this.#string(at, length);
	}

	/**
	 * Answers a GET for a target, which has no more than SMALL / 3 characters.
	 *
	 * @param {string} target
	 * @returns {Answer}
	 */
	serve(target) {
		if (this.#drawn === this.#random.length) {
			crypto.getRandomValues(this.#random);
			this.#drawn = 0;
		}
		const into = this.#bytes.subarray(this.#small, this.#small + SMALL);
		const { written } = encoder.encodeInto(target, into);
		const { at, length } = this.#perform(op.serve, this.#random[this.#drawn++], written);
		const v = this.#view;
		const word = (/** @type {number} */ n) => v.getUint32(at + n, true);
		const texts = at + RESPONSE_HEADER;
		const [body, within, location, next, prev] = [word(28), word(32), word(36), word(40), word(44)];
		const after = texts + (within < body ? body : body + location);
		if (after + next + prev > at + length) throw new Error("the core's answer is none");
		return {
			status: v.getUint16(at, true),
			media: v.getUint8(at + 2),
			validity: v.getUint8(at + 3),
			seq: this.seq,
			second: this.second,
			since: this.#number(at + 4),
			until: this.#number(at + 12),
			from: word(20),
			to: word(24),
			unknown: (word(48) & 1) === 1,
			location: this.#string(texts + within, location),
			next: this.#string(after, next),
			prev: this.#string(after + next, prev),
			body: this.#bytes.slice(texts, texts + body),
		};
	}
}
