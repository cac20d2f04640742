// Makes the scripts that browsers get from static: node page.mjs FOLDER. That of the page
// /verify is bundled from here, and the widget is made small from its source there.
import { join } from "node:path";

import { build } from "esbuild";

const [folder] = process.argv.slice(2);
await build({
	entryPoints: [join(import.meta.dirname, "verify.js")],
	outfile: join(folder, "verify.js"),
	bundle: true,
	format: "iife",
	target: "es2022",
	alias: { "node:crypto": join(import.meta.dirname, "sha256.js") },
	legalComments: "inline",
	logLevel: "warning",
});
await build({
	entryPoints: [join(import.meta.dirname, "../../static/widget.src.js")],
	outfile: join(folder, "widget.js"),
	minify: true,
	target: "es2022",
	logLevel: "warning",
});
