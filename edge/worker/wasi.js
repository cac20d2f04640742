// What the guest imports: the functions of WASI that Go's runtime links, listed in
// wasm/host/testdata/imports.txt. Behind them is nothing that could change an answer. The
// clock is false, as wazero's is, since the core gets time and random bits as arguments;
// only the random source is real, because the guest seeds its hash tables from it.

const SUCCESS = 0;
const BAD_DESCRIPTOR = 8;
const MILLISECOND = 1_000_000n;

/**
 * Makes the imports of one instance.
 *
 * @param {() => ArrayBuffer} memory gives the memory of the instance
 * @param {(text: string) => void} say is called with what the guest prints
 */
export function imports(memory, say) {
	const view = () => new DataView(memory());
	const none = () => SUCCESS;
	const noFile = () => BAD_DESCRIPTOR;
	let now = 1_640_995_200_000_000_000n;

	/** @type {(count: number, size: number) => number} */
	const nothing = (count, size) => {
		view().setUint32(count, 0, true);
		view().setUint32(size, 0, true);
		return SUCCESS;
	};
	return {
		sched_yield: none,
		args_get: none,
		args_sizes_get: nothing,
		environ_get: none,
		environ_sizes_get: nothing,
		fd_close: noFile,
		fd_fdstat_get: noFile,
		fd_fdstat_set_flags: noFile,
		fd_prestat_get: noFile,
		fd_prestat_dir_name: noFile,

		/** @param {number} code */
		proc_exit(code) {
			throw new Error(`the guest ended with status ${code}`);
		},
		/** @type {(clock: number, precision: bigint, at: number) => number} */
		clock_time_get(_clock, _precision, at) {
			now += MILLISECOND;
			view().setBigUint64(at, now, true);
			return SUCCESS;
		},
		/** @type {(at: number, size: number) => number} */
		random_get(at, size) {
			const most = 65_536; // of one call
			for (let end = at + size; at < end; at += most) {
				crypto.getRandomValues(new Uint8Array(memory(), at, Math.min(most, end - at)));
			}
			return SUCCESS;
		},
		/** @type {(descriptor: number, vectors: number, count: number, written: number) => number} */
		fd_write(_descriptor, vectors, count, written) {
			const v = view();
			let size = 0;
			for (let i = 0; i < count; i++) {
				const [at, length] = [v.getUint32(vectors + 8 * i, true), v.getUint32(vectors + 8 * i + 4, true)];
				say(new TextDecoder().decode(new Uint8Array(memory(), at, length)));
				size += length;
			}
			v.setUint32(written, size, true);
			return SUCCESS;
		},
		/**
		 * Says at once that all that was waited for has happened.
		 *
		 * @type {(subscriptions: number, events: number, count: number, written: number) => number}
		 */
		poll_oneoff(subscriptions, events, count, written) {
			const v = view();
			for (let i = 0; i < count; i++) {
				const [from, to] = [subscriptions + 48 * i, events + 32 * i];
				v.setBigUint64(to, v.getBigUint64(from, true), true);
				v.setUint16(to + 8, SUCCESS, true);
				v.setUint8(to + 10, v.getUint8(from + 8));
			}
			v.setUint32(written, count, true);
			return SUCCESS;
		},
	};
}
