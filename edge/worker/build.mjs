// Bundles the Worker into a folder: node build.mjs CORE FOLDER. It says how large what is
// uploaded is.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const [core, folder] = process.argv.slice(2);
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
mkdirSync(folder, { recursive: true });
copyFileSync(core, join(folder, "core.wasm"));
copyFileSync(join(import.meta.dirname, "workerd.capnp"), join(folder, "workerd.capnp"));
await build({
	entryPoints: [join(import.meta.dirname, "worker.js")],
	outfile: join(folder, "worker.js"),
	bundle: true,
	format: "esm",
	target: "es2024",
	external: ["node:*", "./core.wasm"],
	define: { CORE_BUILD: JSON.stringify(sha256(sha256(readFileSync(core))).slice(0, 8)) },
	logLevel: "warning",
});
let [plain, packed] = [0, 0];
for (const name of ["worker.js", "core.wasm"]) {
	const bytes = readFileSync(join(folder, name));
	plain += bytes.length;
	packed += gzipSync(bytes).length;
}
const KiB = (n) => `${Math.ceil(n / 1024)} KiB`;
console.log(`${folder}: ${KiB(plain)}, ${KiB(packed)} in gzip`);
