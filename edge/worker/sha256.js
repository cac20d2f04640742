// createHash as node:crypto has it, for browsers, which hash only asynchronously.

import { sha256 } from "@noble/hashes/sha2.js";

export function createHash() {
	const hash = sha256.create();
	return {
		update(/** @type {string | Uint8Array} */ data) {
			hash.update(typeof data === "string" ? new TextEncoder().encode(data) : data);
			return this;
		},
		digest: () => hash.digest(),
	};
}
