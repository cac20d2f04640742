// Whose cosignatures a checkpoint must have: policies (C2SP tlog-policy) and the Ed25519
// cosignatures of witnesses (C2SP tlog-cosignature), as edge/tlog has them.

import { CHECKPOINT, cut, open, readKey, verified, verify } from "./note.js";

/** @import { Key } from "./note.js" */

const [LOG, WITNESS] = [1, 4];
/** How many logs, witnesses and groups a policy may have in all. */
const MOST_NAMES = 256;
const LINES = new RegExp(`^${CHECKPOINT}(?:.+\n)*$`);

export class Policy {
	/** @type {Key[]} */
	#logs = [];
	/** @type {Map<string, Key>} by the name in the policy */
	#witnesses = new Map();
	/** @type {(signed: Set<string>) => boolean} */
	#quorum;

	/** @param {string} text of a policy; it throws if it is none */
	constructor(text) {
		/** @type {Map<string, (signed: Set<string>) => boolean>} */
		const rules = new Map([["none", () => true]]);
		/** @type {Set<string>} the names that a group has, and all keys */
		const used = new Set();
		let quorum;
		for (const [i, line] of text.split("\n").entries()) {
			const wrong = (/** @type {string} */ why) => new Error(`POLICY, line ${i + 1}: ${why}`);
			if (/[\0-\x08\x0a-\x1f\x7f]/.test(line)) throw wrong("a control character");
			const [kind, name, ...rest] = line.split(/[ \t]+/).filter(Boolean);
			if (!kind || kind.startsWith("#")) continue;
			if (rules.size + this.#logs.length > MOST_NAMES) throw wrong(`a policy may have ${MOST_NAMES} logs, witnesses and groups`);
			const key = (/** @type {string} */ word, /** @type {number} */ type) => {
				const read = readKey(word, type);
				const once = `${type} ${read.raw}`;
				if (used.has(once)) throw wrong("the same key again");
				used.add(once);
				return read;
			};
			const define = (/** @type {(signed: Set<string>) => boolean} */ rule) => {
				if (rules.has(name)) throw wrong(`the name ${name} is taken`);
				rules.set(name, rule);
			};
			if (kind === "log" && name && rest.length <= 1) {
				this.#logs.push(key(name, LOG));
			} else if (kind === "witness" && (rest.length === 1 || rest.length === 2)) {
				define((signed) => signed.has(name));
				this.#witnesses.set(name, key(rest[0], WITNESS));
			} else if (kind === "group" && rest.length >= 2) {
				const [word, ...members] = rest;
				const least = word === "all" ? members.length : word === "any" ? 1 : /^[1-9][0-9]{0,2}$/.test(word) ? Number(word) : NaN;
				if (!(least <= members.length)) throw wrong(`${word} is neither all, any nor a number up to ${members.length}`);
				const of = members.map((member) => {
					const rule = member === "none" ? undefined : rules.get(member);
					if (!rule || used.has(`in ${member}`)) throw wrong(`${member} is not defined above, or is in a group already`);
					used.add(`in ${member}`);
					return rule;
				});
				define((signed) => of.filter((rule) => rule(signed)).length >= least);
			} else if (kind === "quorum" && name && rest.length === 0) {
				if (quorum) throw wrong("a second quorum");
				quorum = rules.get(name);
				if (!quorum) throw wrong(`${name} is not defined above`);
			} else {
				throw wrong("neither a log, a witness, a group nor a quorum");
			}
		}
		if (!quorum) throw new Error("POLICY has no quorum line");
		this.#quorum = quorum;
	}

	/**
	 * Throws unless the policy's witnesses have cosigned a checkpoint, and one of its logs has signed
	 * it, if it names logs.
	 *
	 * @param {string} signed
	 */
	async check(signed) {
		const { text, signatures } = cut(signed);
		const [, origin] = LINES.exec(text) ?? [];
		const logs = this.#logs.filter(({ name }) => name === origin);
		if (this.#logs.length > 0) await verified(signed, logs);
		/** @type {Set<string>} */
		const by = new Set();
		for (const [name, key] of this.#witnesses) {
			const bytes = signatures.find(({ id }) => id === key.id)?.bytes;
			if (!bytes) continue;
			const seconds = bytes.length === 72 ? new DataView(bytes.buffer).getBigInt64(0) : 0n;
			if (seconds <= 0n || !(await verify(key, bytes.slice(8), `cosignature/v1\ntime ${seconds}\n${text}`)))
				throw new Error(`a wrong cosignature of ${name}`);
			by.add(name);
		}
		if (!this.#quorum(by)) throw new Error("not cosigned as the policy requires");
	}

	/**
	 * Reads what /sync/cosigned gives: a signed statement about the ledger, and the cosigned
	 * checkpoint of the same events.
	 *
	 * @param {string} joined
	 * @param {Key[]} keys
	 */
	async open(joined, keys) {
		const [, statement = joined, cosigned = ""] = /^(.+?\n\n.+?\n)\n(.+)$/s.exec(joined) ?? [];
		const at = await open(statement, keys);
		const [, origin, size, root] = LINES.exec(await verified(cosigned, keys)) ?? [];
		if (origin !== keys[0].name || Number(size) !== at.size || root !== at.root)
			throw new Error("the cosigned checkpoint is of other events than the signed statement");
		await this.check(cosigned);
		return at;
	}
}
