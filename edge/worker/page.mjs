// Bundles the script of the page /verify: node page.mjs FILE.
import { join } from "node:path";

import { build } from "esbuild";

await build({
	entryPoints: [join(import.meta.dirname, "verify.js")],
	outfile: process.argv[2],
	bundle: true,
	format: "iife",
	target: "es2022",
	alias: { "node:crypto": join(import.meta.dirname, "sha256.js") },
	legalComments: "inline",
	logLevel: "warning",
});
