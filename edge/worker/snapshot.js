// Reads what the beginning of a snapshot's file says, of which nothing is believed yet.

/** How long the content of a zstd frame is, as its header says (RFC 8878, 3.1.1.1): 0 if it does not. */
export function contentSize(/** @type {Uint8Array} */ file) {
	const [, , , , descriptor] = file;
	const single = (descriptor >> 5) & 1;
	const flag = descriptor >> 6;
	const at = 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3];
	const size = flag === 0 ? single : 2 ** flag;
	let content = flag === 1 ? 256 : 0;
	for (let i = 0; i < size; i++) content += file[at + i] * 256 ** i;
	return content;
}

/** As many bytes hold all that comes before the rows. The core begins when it has them. */
export const HEAD = (64 << 10) + 128;
/** Where the base has its length, in 4 bytes: behind the version and the digest (core/snap/rows.go). */
const BASE = 19 + 16;

/**
 * Reads how many rows a snapshot has. It is -1 where head does not reach so far, and the core then
 * waits for more, or refuses.
 */
export function countRows(/** @type {Uint8Array} */ head) {
	const view = new DataView(head.buffer, head.byteOffset, head.length);
	const at = head.length < BASE + 4 ? BASE : BASE + 4 + view.getUint32(BASE);
	return head.length < at + 4 || at === BASE ? -1 : view.getUint32(at);
}

/**
 * How much memory a core takes as soon as it knows the header of a snapshot, in bytes: for itself,
 * for rows' indexes and what else lies in columns, and for their texts (reserve in core/store.go).
 *
 * @type {(count: number, size: number) => number}
 */
export const memoryFor = (count, size) => (6 << 20) + 113 * count + 1.1 * size;
