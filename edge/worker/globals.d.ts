// What the build gives.
declare const CORE_BUILD: string;
declare module "*.wasm" {
	const core: WebAssembly.Module;
	export default core;
}

// What the runtimes have of Node, as far as the Worker uses it.
declare module "node:crypto" {
	interface Hash {
		update(data: string | Uint8Array): Hash;
		digest(): Uint8Array<ArrayBuffer>;
		digest(encoding: "hex" | "base64"): string;
	}
	export function createHash(algorithm: "sha256"): Hash;
}
declare module "node:stream/promises" {
	/** Ends with the first error of any part, all of which it then ends. */
	export function pipeline(
		source: () => AsyncIterable<Uint8Array>,
		through: import("node:zlib").Decompress,
		to: (pieces: AsyncIterable<Uint8Array>) => Promise<void>,
	): Promise<void>;
}
declare module "node:zlib" {
	interface Decompress extends AsyncIterable<Uint8Array> {}
	const zlib: {
		constants: { ZSTD_d_windowLogMax: number };
		createZstdDecompress(options: { chunkSize: number; params: Record<number, number> }): Decompress;
	};
	export default zlib;
}
