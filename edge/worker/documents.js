// Documents of the core that are asked for again and again are kept, as edge/cached.go keeps them.

/** @import { Answer, Guest } from "./guest.js" */

const ALWAYS_NEW = 0;
const UNTIL = 2;
/** The longest target with a kept document: twice the length of one with every parameter of lists. */
const LONGEST_TARGET = 256;
/** The length from which a document is kept. To make a shorter one costs little more than copying it. */
const LEAST = 4 << 10;
/** How many bytes all documents take. An isolate has 128 MB, most of which are for the core. */
const MOST = 2 << 20;

/** Those of one core at one position. */
export class Documents {
	/** @type {WeakRef<Guest> | null} weak, since a core that was given up must not fill the isolate */
	#guest = null;
	#seq = -1;
	#size = 0;
	/** @type {Map<string, Answer>} */
	#kept = new Map();

	/**
	 * Answers as the core would. Only the time of an answer and its tag may be changed.
	 *
	 * @param {Guest} guest
	 * @param {string} target
	 */
	serve(guest, target) {
		if (guest !== this.#guest?.deref() || guest.seq !== this.#seq) this.#clear(guest);
		const kept = this.#kept.get(target);
		if (kept && (kept.validity !== UNTIL || (kept.since <= guest.second && guest.second < kept.until))) {
			kept.second = guest.second;
			return kept;
		}
		const a = guest.serve(target);
		const size = a.body.length;
		if (a.status !== 200 || a.validity === ALWAYS_NEW || size < LEAST || size > MOST || target.length > LONGEST_TARGET) return a;
		if (kept) this.#size -= kept.body.length;
		if (this.#size + size > MOST) this.#clear(guest);
		this.#size += size;
		this.#kept.set(target, a);
		return a;
	}

	#clear(/** @type {Guest} */ guest) {
		this.#guest = new WeakRef(guest);
		this.#seq = guest.seq;
		this.#size = 0;
		this.#kept.clear();
	}
}
