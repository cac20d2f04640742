// What the page /verify remembers from one visit to the next.

/**
 * What was verified last: the verifiers that were trusted, and the checkpoint as it was signed.
 *
 * @typedef {{key: string, signed: string}} Remembered
 */

const place = (/** @type {string} */ origin) => `verified ${origin}`;

/** Gives what was verified last of a ring with this name, null for nothing. @type {(origin: string) => Remembered | null} */
export function recall(origin) {
	try {
		const { key, signed } = JSON.parse(localStorage.getItem(place(origin)) ?? "{}");
		return typeof key === "string" && typeof signed === "string" ? { key, signed } : null;
	} catch {
		return null; // the browser keeps nothing for pages
	}
}

/** Reports whether it will be remembered. @type {(origin: string, last: Remembered) => boolean} */
export function remember(origin, last) {
	try {
		localStorage.setItem(place(origin), JSON.stringify(last));
		return true;
	} catch {
		return false;
	}
}
