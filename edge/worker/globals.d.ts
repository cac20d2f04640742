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
declare module "node:zlib" {
	interface Decompress extends AsyncIterable<Uint8Array> {
		end(data: Uint8Array): void;
	}
	const zlib: { createZstdDecompress(): Decompress };
	export default zlib;
}
