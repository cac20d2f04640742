// Follows an origin: fetches what it has signed, checks that, and has a core that answers.
// Nothing is believed that the origin's key does not lead to, whichever cache it came from.

import { createHash } from "node:crypto";
import { pipeline } from "node:stream/promises";
import zlib from "node:zlib";

import { continues, Contradiction } from "./contradiction.js";
import { Guest } from "./guest.js";
import { follows, open, readKeys } from "./note.js";
import { Policy } from "./policy.js";
import { checkRoot, checkState, explain, fold, MOST_NOTE, sleep } from "./records.js";
import { contentSize, countRows, HEAD, memoryFor } from "./snapshot.js";
import { records, WIDTH } from "./tiles.js";
import { Tree, edgeLength } from "./tree.js";

/** @import { Checkpoint, Key } from "./note.js" */
/** @typedef {{ORIGIN: string, ORIGIN_KEY: string, EDGE_SECRET?: string, RATE_LIMIT?: string, POLICY?: string, FLOOR?: KVNamespace}} Env */
/** @typedef {{waitUntil(promise: Promise<unknown>): void}} Context */
/** @typedef {(path: string, init: RequestInit, body?: Uint8Array<ArrayBuffer>) => Promise<Response>} Ask */

/**
 * How many events one update takes at most: the platform lets a request send 50 of its own on free
 * plans, and a bundle takes two. Up to as many are held until the root shows whether they are signed.
 */
const MOST_TAKEN = 16 * WIDTH;
/** The longest snapshot that is loaded, before it is compressed, and the most memory of a core with it. */
const MOST_SNAPSHOT = 64 << 20;
const MOST_MEMORY = 96 << 20;
/** How many bytes of a snapshot are decompressed at a time. */
const PIECE = 64 << 10;
/** The largest window of its compression, as a power of two: that of the origin's encoder. */
const MOST_WINDOW = 23;

const POLL = 1_000;
const STALE = 60_000;
/** How much longer answers are fresh under a policy: the origin asks witnesses once a minute. */
const WITNESS_LAG = 90_000;
/** After this the next reader waits for news, up to PATIENCE. Readers' caches hold answers as long. */
const OLD = 5_000;
const PATIENCE = 1_000;
/** How long a request waits for the first state before the origin answers it. */
const FIRST = 3_000;
/** After this an update is given up: the isolate's runtime may have ended the request that it belongs to. */
const LOST = 30_000;
const LEAST_REST = 1_000;
const MOST_REST = 60_000;
const FLOOR_EACH = 60_000;
const FLOOR_KEY = "checkpoint";
const EVIDENCE_KEY = "contradiction";
const EVIDENCE_EACH = 60_000;

/** Says what is wrong. @type {(what: string, error: unknown) => void} */
const complain = (what, error) => console.error(`${what}: ${explain(error)}`);

const refused = (/** @type {string} */ why) => new Error("snapshot refused", { cause: new Error(why) });

/** An error after which the core must not be used. */
class Broken extends Error {}

/** What the next update goes on with. */
class Unfinished extends Error {}

/**
 * A core, and the tree of the events in it.
 *
 * @typedef {{guest: Guest, tree: Tree}} Replayed
 */

export class Replica {
	/** @type {Guest | null} answers readers; null while there is none that may */
	guest = null;
	/** @type {Checkpoint | null} the newest that was reached, by any guest of this isolate */
	at = null;
	baseURL = "";

	#module;
	#env;
	#ask;
	/** @type {Policy | null} */
	#policy;
	/** @type {Key[]} */
	#keys = [];
	#tree = new Tree();
	/** @type {Replayed | null} what readers do not see yet: the next update goes on with it */
	#coming = null;
	#heard = 0;
	#polled = 0;
	#signed = ""; // what came last, and is reached
	#failing = false; // the last update failed
	#unreached = false; // the guest was dropped, or does not come to what is signed
	#doubt = false; // what came last was not what was signed, so caches are bypassed
	#rest = 0;
	#again = 0; // no attempt to begin anew before this
	#floorAsked = false;
	#floorWritten = 0;
	#compared = 0; // when it was last looked whether the origin has signed two histories
	/** @type {{began: number, done: Promise<void>} | null} */
	#update = null;

	/**
	 * @param {WebAssembly.Module} module
	 * @param {Env} env
	 * @param {Ask} ask sends a request of this node's own to the origin
	 */
	constructor(module, env, ask) {
		this.#module = module;
		this.#env = env;
		this.#ask = ask;
		this.#policy = env.POLICY ? new Policy(env.POLICY) : null;
	}

	/** Whether answers may be behind the ring. */
	get stale() {
		const now = Date.now();
		const most = STALE + (this.#policy ? WITNESS_LAG : 0);
		return this.#unreached || now - this.#heard > most || now - (this.at?.time ?? 0) > most;
	}

	/**
	 * Asks the origin for news at most once a second, and gives what a request is to wait for
	 * before it reads, mostly nothing.
	 *
	 * @param {Context} ctx of the request, which lives as long as an update that it begins
	 * @returns {Promise<void> | undefined}
	 */
	visit(ctx) {
		const now = Date.now();
		if (!this.guest) return now >= this.#again || this.#update ? this.#within(this.update(ctx), FIRST) : undefined;
		if (now - this.#polled < POLL) return undefined;
		const old = now - this.#heard > OLD && now - this.#polled > OLD && !this.#failing;
		const update = this.update(ctx);
		return old ? this.#within(update, PATIENCE) : undefined;
	}

	/** Brings the core's clock to the present. */
	tick() {
		try {
			this.guest?.tick(Math.floor(Date.now() / 1000));
		} catch (error) {
			this.drop(error);
		}
	}

	/**
	 * Waits until a position is shown, at most until the deadline, and says whether it is.
	 *
	 * @param {Context} ctx
	 * @param {number} seq
	 * @param {number} deadline in milliseconds since 1970
	 */
	async reach(ctx, seq, deadline) {
		const reached = () => (this.guest?.seq ?? -1) >= seq;
		while (!reached() && Date.now() < deadline && (this.guest || Date.now() >= this.#again)) {
			await this.#within(this.update(ctx, true), deadline - Date.now());
			if (!reached()) await sleep(50);
		}
		return reached();
	}

	/** Drops a guest that has failed: readers get the origin's answers until there is another. */
	drop(/** @type {unknown} */ error) {
		complain("the core is dropped", error);
		this.guest = null;
		this.#unreached = true;
		this.#pause();
	}

	#pause() {
		this.#rest = Math.min(Math.max(2 * this.#rest, LEAST_REST), MOST_REST);
		this.#again = Date.now() + this.#rest;
	}

	/**
	 * Waits for a promise that may belong to another request: a timer of this one's own
	 * wakes it, since the other may be ended at any moment.
	 *
	 * @param {Promise<void>} promise
	 * @param {number} most
	 */
	#within(promise, most) {
		return Promise.race([promise, sleep(most)]);
	}

	/**
	 * Asks for news and takes it. There is one update at a time, which all requests share.
	 * It ends without an error.
	 *
	 * @param {Context} ctx
	 * @param {boolean} fresh whether caches are bypassed
	 */
	update(ctx, fresh = false) {
		const now = Date.now();
		if (this.#update && now - this.#update.began < LOST) return this.#update.done;
		this.#polled = now;
		/** @type {{began: number, done: Promise<void>}} */
		const mine = { began: now, done: Promise.resolve() };
		this.#update = mine;
		const still = () => {
			if (this.#update !== mine) throw new Error("another update has begun meanwhile");
		};
		mine.done = this.#take(fresh, still)
			.then(() => {
				this.#failing = false;
			})
			.catch((error) => {
				this.#failing = true;
				if (this.#update === mine && error instanceof Broken) this.drop(error);
				else complain("not updated", error);
			})
			.finally(() => {
				if (this.#update === mine) this.#update = null;
			});
		ctx.waitUntil(mine.done);
		return mine.done;
	}

	/**
	 * @param {boolean} fresh
	 * @param {() => void} still throws when this update was given up; called after each wait, before anything changes
	 */
	async #take(fresh, still) {
		if (this.#keys.length === 0) this.#keys = await readKeys(this.#env.ORIGIN_KEY);
		const policy = this.#policy;
		const [path, most] = policy ? ["/sync/cosigned", 8 * MOST_NOTE] : ["/sync/checkpoint", MOST_NOTE];
		const signed = await this.#text(path, most, fresh || this.#doubt);
		still();
		if (this.guest && this.#signed === signed) return;
		/** @type {Checkpoint | undefined} */
		let to;
		try {
			to = policy ? await policy.open(signed, this.#keys) : await open(signed, this.#keys);
			await this.#readFloor();
			still();
			if (this.at) follows(to, this.at);
			if (this.guest && to.size - this.#tree.size > MOST_TAKEN) {
				// There is no memory for another: readers get the origin's answers meanwhile.
				this.#coming = { guest: this.guest, tree: this.#tree };
				this.guest = null;
			}
			if (this.guest) await this.#advance(this.guest, to, still);
			else await this.#begin(to, still);
			this.at = to;
			this.#signed = signed;
			this.#heard = Date.now();
			this.#unreached = this.#doubt = false;
			this.#rest = this.#again = 0;
		} catch (error) {
			if (error instanceof Unfinished) throw error;
			this.#doubt = true;
			if (!this.guest) this.#pause();
			if (to) await this.#accuse(to, error);
			throw error;
		}
		await this.#writeFloor();
	}

	/**
	 * Makes a guest from the snapshot that a checkpoint names, and the events after it, unless there
	 * is one already that lacks events only.
	 */
	async #begin(/** @type {Checkpoint} */ to, /** @type {() => void} */ still) {
		const coming = this.#coming ?? { guest: new Guest(this.#module), tree: new Tree() };
		this.#coming = null;
		if (coming.tree.size === 0 && to.snapshot.size > 0) {
			// A snapshot of later events cannot show that their history is the one that was signed before.
			if (this.at && this.at.size < to.snapshot.size) await continues(this.#env.ORIGIN_KEY, this.at, to, this.#get);
			coming.tree = await this.#load(coming.guest, to.snapshot);
		}
		const { guest, tree } = coming;
		const size = Math.min(to.size, tree.size + MOST_TAKEN);
		this.#pass(tree);
		for await (const { events, range } of records(this.#get, tree.size, size)) {
			for (const event of events) {
				tree.add(event);
				this.#pass(tree);
			}
			fold(guest, range);
		}
		still();
		if (size < to.size) {
			this.#coming = coming;
			throw new Unfinished(`${size} of ${to.size} events are replayed`);
		}
		checkRoot(tree, to);
		checkState(guest, to);
		this.#show(guest, tree);
		console.log(`begun at ${to.size} events; the core has ${guest.memory.buffer.byteLength >> 20} MiB`);
	}

	/** Throws where a tree is as large as what was signed before, and is another. */
	#pass(/** @type {Tree} */ tree) {
		if (tree.size === this.at?.size && tree.root() !== this.at.root)
			throw new Error(`checkpoint of another history of ${tree.size} events`);
	}

	/** Makes a guest what readers see. */
	#show(/** @type {Guest} */ guest, /** @type {Tree} */ tree) {
		guest.tick(Math.floor(Date.now() / 1000));
		this.baseURL = guest.baseURL();
		this.#tree = tree;
		this.guest = guest;
	}

	/** Brings the guest that readers see to a checkpoint. */
	async #advance(/** @type {Guest} */ guest, /** @type {Checkpoint} */ to, /** @type {() => void} */ still) {
		const tree = this.#tree.clone();
		/** @type {Uint8Array[]} */
		const ranges = [];
		for await (const { events, range } of records(this.#get, tree.size, to.size)) {
			for (const event of events) tree.add(event);
			ranges.push(range);
		}
		still();
		checkRoot(tree, to);
		if (ranges.length === 0) return;
		try {
			// No request comes between these: a reader sees the state before or the one after.
			for (const range of ranges) fold(guest, range);
			checkState(guest, to);
			this.#show(guest, tree);
		} catch (error) {
			throw new Broken("readers may not see this core", { cause: error });
		}
	}

	/**
	 * Looks, after a checkpoint was refused, whether it and what was signed before show that the
	 * origin has signed two histories. If so, it keeps the evidence. It throws nothing.
	 *
	 * @param {Checkpoint} to
	 * @param {unknown} error why it was refused
	 */
	async #accuse(to, error) {
		const before = this.at;
		if (!before || before.size > to.size || before.root === to.root || Date.now() - this.#compared < EVIDENCE_EACH) return;
		this.#compared = Date.now();
		const { FLOOR, ORIGIN_KEY } = this.#env;
		try {
			if (error instanceof Contradiction) throw error;
			await continues(ORIGIN_KEY, before, to, this.#get);
		} catch (found) {
			if (!(found instanceof Contradiction)) return complain("whether it contradicts what was signed before is not known", found);
			const said = "the origin has signed two histories; keep the evidence, webring verify --evidence FILE checks it";
			try {
				if (FLOOR && !(await FLOOR.get(EVIDENCE_KEY))) await FLOOR.put(EVIDENCE_KEY, found.evidence);
				console.error(FLOOR ? `${said}. FLOOR has it as ${EVIDENCE_KEY}` : `${said}:\n${found.evidence}`);
			} catch (failed) {
				complain(`${said}:\n${found.evidence}\nFLOOR does not take it`, failed);
			}
		}
	}

	/**
	 * Loads a snapshot into a guest, which must not be shown if this fails, and gives the tree of its events.
	 *
	 * @param {Guest} guest
	 * @param {Checkpoint["snapshot"]} named
	 */
	async #load(guest, named) {
		if (named.bytes > MOST_SNAPSHOT) throw refused(`${named.bytes} bytes`);
		const edge = new Uint8Array(edgeLength(named.size));
		const head = new Uint8Array(HEAD);
		let [rows, from, count] = [-1, 0, -1];
		/** @type {(piece: Uint8Array, plain: number) => void} */
		const take = (piece, plain) => {
			if (rows < 0) {
				rows = plain - edge.length;
				if (rows <= 0 || plain > MOST_SNAPSHOT) throw new Error(`there is no memory for its ${plain} bytes here`);
				guest.load(rows);
			}
			if (from + piece.length > plain) throw new Error("longer than it says");
			// No piece is kept: there is memory for one copy of the rows.
			const cut = Math.max(0, Math.min(piece.length, rows - from));
			if (count < 0) {
				// The core makes room for all rows at once, when it has what comes before them.
				head.set(piece.subarray(0, Math.max(0, HEAD - from)), from);
				count = countRows(head.subarray(0, from + piece.length));
				if (memoryFor(count, rows) > MOST_MEMORY) throw new Error(`there is no memory for its ${count} rows here`);
			}
			guest.piece(piece.subarray(0, cut));
			if (guest.memory.buffer.byteLength > MOST_MEMORY) throw new Error("there is no memory for its rows here");
			edge.set(piece.subarray(cut), Math.max(0, from - rows));
			from += piece.length;
		};
		let unsaid = 0;
		await this.#unpack(named, (piece, plain) => {
			if (plain > 0) take(piece, plain);
			else unsaid += piece.length;
			if (unsaid > MOST_SNAPSHOT) throw new Error("there is no memory for it here");
		});
		// Where the frame does not say how long it is, all was counted first.
		if (unsaid > 0) await this.#unpack(named, (piece) => take(piece, unsaid));
		if (from < rows + edge.length) throw refused("shorter than it says");
		guest.loaded();
		if (guest.seq !== named.size) throw refused(`of ${guest.seq} events, not ${named.size}`);
		return Tree.of(named.size, edge);
	}

	/**
	 * Fetches a snapshot, and gives its content piece by piece while it comes. An error at the end says
	 * that it was not what was signed.
	 *
	 * @param {Checkpoint["snapshot"]} named
	 * @param {(piece: Uint8Array, plain: number) => void} take gets how long all of the content is, too, 0 if the file does not say it
	 */
	async #unpack(named, take) {
		const response = await this.#fetch(`/sync/snapshot/${named.digest}`, named.bytes);
		const digest = createHash("sha256");
		let plain = -1;
		let bytes = 0;
		try {
			await pipeline(
				async function* () {
					for await (const chunk of response.body ?? []) {
						if (plain < 0) plain = contentSize(chunk);
						digest.update(chunk);
						bytes += chunk.length;
						if (bytes > named.bytes) throw new Error("longer than was signed");
						yield chunk;
					}
				},
				zlib.createZstdDecompress({ chunkSize: PIECE, params: { [zlib.constants.ZSTD_d_windowLogMax]: MOST_WINDOW } }),
				async (/** @type {AsyncIterable<Uint8Array>} */ pieces) => {
					for await (const piece of pieces) take(piece, plain);
				},
			);
		} catch (error) {
			throw new Error("snapshot refused", { cause: error });
		}
		if (digest.digest("hex") !== named.digest) throw refused("not the one that was signed");
	}

	/** Reads the checkpoint that any isolate has reached: nothing earlier is taken. */
	async #readFloor() {
		if (this.#floorAsked || !this.#env.FLOOR) return;
		const floor = await this.#kept();
		this.#floorAsked = true;
		this.at ??= floor;
	}

	/** Reads the checkpoint that is kept, null if there is none. */
	async #kept() {
		const signed = await this.#env.FLOOR?.get(FLOOR_KEY);
		if (!signed) return null;
		try {
			return await open(signed, this.#keys);
		} catch (error) {
			complain("the checkpoint that is kept is not used", error);
			return null;
		}
	}

	/** Keeps the newest checkpoint for other isolates, at most once a minute. It throws nothing. */
	async #writeFloor() {
		const { FLOOR } = this.#env;
		const { at } = this;
		if (!FLOOR || !at || Date.now() - this.#floorWritten < FLOOR_EACH) return;
		this.#floorWritten = Date.now();
		try {
			const kept = await this.#kept();
			if (!kept || kept.size < at.size || (kept.size === at.size && kept.time < at.time)) await FLOOR.put(FLOOR_KEY, at.signed);
		} catch (error) {
			complain("the newest checkpoint could not be kept", error);
		}
	}

	/** @type {import("./tiles.js").Get} */
	#get = (path, most) => this.#bytes(path, most);

	/** @type {(path: string, most: number, fresh?: boolean) => Promise<string>} */
	async #text(path, most, fresh) {
		return new TextDecoder().decode(await this.#bytes(path, most, fresh));
	}

	/**
	 * Fetches at most so many bytes through the platform's cache, or past it.
	 *
	 * @type {(path: string, most: number, fresh?: boolean) => Promise<Uint8Array<ArrayBuffer>>}
	 */
	async #bytes(path, most, fresh) {
		const bytes = new Uint8Array(await (await this.#fetch(path, most, fresh)).arrayBuffer());
		if (bytes.length > most) throw new Error(`${path}: ${bytes.length} bytes`);
		return bytes;
	}

	/** @type {(path: string, most: number, fresh?: boolean) => Promise<Response>} */
	async #fetch(path, most, fresh = this.#doubt) {
		/** @type {RequestInit} */
		const init = fresh ? { cache: "no-store" } : /** @type {RequestInit} */ ({ cf: { cacheEverything: true } });
		const response = await this.#ask(path, { ...init, signal: AbortSignal.timeout(LOST) });
		const said = Number(response.headers.get("Content-Length"));
		if (response.status !== 200 || said > most) {
			await response.body?.cancel();
			throw new Error(`${path}: status ${response.status}, ${said} bytes`);
		}
		return response;
	}
}
