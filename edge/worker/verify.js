// What the page /verify does once it is asked to: it replays the log in the core, as the
// Worker does, and compares a leaderboard with its own. The page is templates/verify.templ.

import { createHash } from "node:crypto";

import { Contradiction, continues } from "./contradiction.js";
import { Guest } from "./guest.js";
import { follows, open, readKeys, toHex, verified } from "./note.js";
import { checkRoot, checkState, explain, fold, MOST_NOTE, sleep } from "./records.js";
import { recall, remember } from "./remember.js";
import { records } from "./tiles.js";
import { Tree } from "./tree.js";

/** @import { Checkpoint } from "./note.js" */

const DOCUMENT = "/api/leaderboard";
const MOST_MODULE = 16 << 20;
const MOST_DOCUMENT = 4 << 20;
/** What a browser replays: more takes minutes, and memory that a telephone does not have. */
const MOST_EVENTS = 200_000;
const MOST_BYTES = 256 << 20;
/** How long a position that is shown may stay unsigned, in attempts of a second each. */
const ATTEMPTS = 20;
/** How long a leaderboard may stay behind what was signed before it, in such attempts. */
const BEHIND = 5;
/** How many minutes the leaderboard and the signature may lie from the reader's clock. */
const MINUTES = 5;
/** By how many seconds the clock of the core there may differ from the answer's Date. */
const AROUND = 3;
const PATIENCE = 60_000;
/** How often the ring may ask to wait before it answers something, and for how many seconds at most. */
const WAITS = 5;
const MOST_WAIT = 60;

const sha256 = (/** @type {Uint8Array} */ bytes) => toHex(createHash("sha256").update(bytes).digest());
const count = (/** @type {number} */ n) => n.toLocaleString("en");

/** Whether what came last was not what was signed, and caches are bypassed. */
let doubt = false;

/**
 * Fetches at most so many bytes, past all caches unless one is named. It waits as the ring asks.
 *
 * @param {string | URL} url
 * @param {number} most
 * @param {RequestCache} cache
 */
async function get(url, most, cache = "no-store") {
	let response;
	for (let waits = 0; ; waits++) {
		response = await fetch(url, { cache, credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
		if (response.status !== 429 || waits === WAITS) break;
		await sleep(1000 * Math.min(Number(response.headers.get("Retry-After")) || 1, MOST_WAIT));
	}
	const path = new URL(response.url).pathname;
	if (response.status !== 200 || !response.body) throw new Error(`${path} was answered with status ${response.status}`);
	const parts = [];
	let length = 0;
	for (const reader = response.body.getReader(); ;) {
		const { done, value } = await reader.read();
		if (done) break;
		parts.push(value);
		length += value.length;
		if (length > most) {
			await reader.cancel();
			throw new Error(`${path} has more than ${count(most)} bytes, which is too much for this page`);
		}
	}
	const bytes = new Uint8Array(length);
	let at = 0;
	for (const part of parts) {
		bytes.set(part, at);
		at += part.length;
	}
	return { bytes, response };
}

/**
 * What was found. A difference is where the two leaderboards part, "" if they do not. Late
 * says that they or the signature are of another time than the reader's, "" if they are not.
 *
 * @typedef {object} Found
 * @property {string} difference
 * @property {string} late
 * @property {number} seq
 * @property {string} members
 * @property {Date} as
 * @property {string} document SHA-256 of the leaderboard
 * @property {Checkpoint} checkpoint
 * @property {string} core SHA-256 of the module
 * @property {string} key
 * @property {Checkpoint | null} before what was verified last
 * @property {boolean} remembered whether the next visit will know
 */

/**
 * @param {string} root the address that paths of the ring follow
 * @param {string} module the module's address
 * @param {string} pinned verifiers that the reader trusts, "" for what the ring says
 * @param {(words: string) => void} say
 * @returns {Promise<Found>}
 */
async function verify(root, module, pinned, say) {
	const at = (/** @type {string} */ path) => root + path;
	const text = async (/** @type {string} */ path) => new TextDecoder().decode((await get(at(path), MOST_NOTE)).bytes);
	if (!globalThis.crypto?.subtle) {
		throw new Error(
			"browsers check signatures only on pages that came over https, and this one did not; open it over https, or follow the ring with webring edge",
		);
	}
	say("Fetching the key, the leaderboard and the module.");
	const named = await text("/sync/keys");
	const last = recall(named.split("\n", 1)[0]);
	const words = pinned || (last ? await renewed(last.key, named) : verifiers(named));
	const keys = await readKeys(words).catch((error) => {
		if (error.name === "NotSupportedError")
			throw new Error("this browser does not know the ring's signatures (Ed25519), which newer ones do");
		throw error;
	});
	const before = last && (await open(last.signed, await readKeys(`${words} ${last.key}`)));
	const core = (await get(module, MOST_MODULE)).bytes;
	const checkpoint = async () => open(await text("/sync/checkpoint"), keys);
	const first = await checkpoint();
	const { shown, seq, date } = await leaderboard(at(DOCUMENT), first, say);
	const to = await signed(first, seq, checkpoint, say);
	const clock = Date.now();
	if (before && before.size > to.size)
		throw new Error(`the ring shows ${count(to.size)} events, and had signed ${count(before.size)} when you verified it last`);
	let bytes = 0;
	const log = async (/** @type {string} */ path, /** @type {number} */ most) => {
		const { bytes: some } = await get(at(path), most, doubt ? "reload" : "default");
		bytes += some.length;
		if (bytes > MOST_BYTES) throw new Error(`the log has more than ${count(MOST_BYTES)} bytes, which is too much for a browser`);
		return some;
	};
	for (const earlier of before ? [before, first] : [first]) await continues(`${words} ${last?.key ?? ""}`, earlier, to, log);
	const digest = sha256(core);
	if (to.core !== digest) {
		throw new Error(
			`the log is signed by another build of the core (${to.core}) than the one that this site offers (${digest}); ` +
				"while the ring is upgraded that can be so, then try again after it, or use webring edge",
		);
	}
	if (to.size > MOST_EVENTS) {
		throw new Error(
			`the log has ${count(to.size)} events, and a browser replays ${count(MOST_EVENTS)} at most; webring edge has no such bound`,
		);
	}
	const guest = new Guest(await WebAssembly.compile(core));
	const tree = new Tree();
	const replay = async (/** @type {number} */ size) => {
		for await (const { events, range } of records(log, tree.size, size)) {
			for (const event of events) tree.add(event);
			fold(guest, range);
			say(`Replayed ${count(tree.size)} of ${count(to.size)} events.`);
		}
	};
	await replay(seq);
	const { answer, difference } = compare(guest, shown, date);
	const members = JSON.parse(new TextDecoder().decode(answer.body)).total;
	await replay(to.size);
	checkRoot(tree, to);
	checkState(guest, to);
	return {
		difference,
		late: late(answer.second * 1000, to.time, clock),
		seq,
		members: count(members),
		as: new Date(answer.second * 1000),
		document: sha256(shown),
		checkpoint: to,
		core: digest,
		key: words,
		before,
		remembered: remember(keys[0].name, { key: words, signed: to.signed }),
	};
}

/** The verifiers in a statement about keys. @type {(statement: string) => string} */
const verifiers = (statement) => [...statement.matchAll(/^(?:current|next) (\S+)$/gm)].map((m) => m[1]).join(" ");

/** Gives the verifiers that a trusted key says, and the trusted ones if it says nothing. @type {(trusted: string, statement: string) => Promise<string>} */
async function renewed(trusted, statement) {
	try {
		return verifiers(await verified(statement, await readKeys(trusted)));
	} catch {
		return trusted;
	}
}

/**
 * Fetches the leaderboard, again while it is of an earlier position than one that was signed
 * before: a node may be a little behind.
 *
 * @param {string} url
 * @param {Checkpoint} first
 * @param {(words: string) => void} say
 */
async function leaderboard(url, first, say) {
	for (let attempt = 1; ; attempt++) {
		const { bytes: shown, response } = await get(url, MOST_DOCUMENT);
		const seq = Number(response.headers.get("Webring-Seq"));
		if (!Number.isSafeInteger(seq) || seq <= 0) throw new Error("the leaderboard does not say of which position it is");
		const date = Math.floor(Date.parse(response.headers.get("Date") ?? "") / 1000);
		if (!date) throw new Error("the leaderboard does not say of which time it is");
		if (seq >= first.size) return { shown, seq, date };
		const old = `the leaderboard is of ${count(seq)} events, and ${count(first.size)} were signed before it was asked for`;
		if (attempt === BEHIND) throw new Error(`${old}: it is an old one`);
		say(`Asking again: ${old}.`);
		await sleep(1000);
	}
}

/**
 * Waits until a position is signed, and gives the checkpoint.
 *
 * @param {Checkpoint} to what is signed so far
 * @param {number} seq
 * @param {() => Promise<Checkpoint>} fetch
 * @param {(words: string) => void} say
 */
async function signed(to, seq, fetch, say) {
	for (let attempt = 0; to.size < seq; attempt++) {
		if (attempt === ATTEMPTS)
			throw new Error(`the leaderboard is of ${count(seq)} events, and the newest signature is of ${count(to.size)}`);
		say(`Waiting for a signature of ${count(seq)} events: so far ${count(to.size)} are signed.`);
		await sleep(1000);
		const next = await fetch();
		follows(next, to);
		to = next;
	}
	return to;
}

/**
 * Says that a leaderboard or the signature is of another time than the reader's clock shows,
 * "" if both are near it. All are in milliseconds since 1970.
 *
 * @param {number} as
 * @param {number} time of the signature
 * @param {number} clock
 */
function late(as, time, clock) {
	if (Math.max(Math.abs(as - clock), Math.abs(time - clock)) <= MINUTES * 60_000) return "";
	const [shown, newest, now] = [as, time, clock].map((ms) => new Date(ms).toISOString());
	return (
		`This is the leaderboard as it was at ${shown}, and the newest signature is of ${newest}; your clock says ${now}. ` +
		`More than ${MINUTES} minutes lie between. If your clock is wrong, set it and verify again; if it is right, this is not the present leaderboard.`
	);
}

/**
 * Compares a leaderboard with that of the core at about the second of its date.
 *
 * @param {Guest} guest
 * @param {Uint8Array} shown
 * @param {number} date
 */
function compare(guest, shown, date) {
	/** @type {{answer: import("./guest.js").Answer, difference: string} | undefined} */
	let nearest;
	for (let second = date - AROUND; second <= date + AROUND; second++) {
		guest.tick(second);
		const answer = guest.serve(DOCUMENT);
		const difference = between(shown, answer.body);
		if (!nearest || second === date || difference === "") nearest = { answer, difference };
		if (difference === "") break;
	}
	if (!nearest) throw new Error("nothing was compared");
	return nearest;
}

/** Says where two texts part, "" if they do not. @type {(shown: Uint8Array, own: Uint8Array) => string} */
function between(shown, own) {
	const most = Math.max(shown.length, own.length);
	for (let i = 0; i < most; i++) {
		if (shown[i] === own[i]) continue;
		const around = (/** @type {Uint8Array} */ b) => new TextDecoder().decode(b.subarray(Math.max(0, i - 40), i + 40));
		return `At byte ${count(i)} the ring shows “${around(shown)}”, and the log gives “${around(own)}”.`;
	}
	return "";
}

/** Shows what was found as a list of terms. */
function* terms(/** @type {Found} */ found) {
	const { checkpoint: to } = found;
	yield ["Position", `${count(found.seq)} events; signed: ${count(to.size)}, at ${new Date(to.time).toISOString()}`];
	yield ["Members", found.members];
	yield ["As of", found.as.toISOString()];
	yield ["SHA-256 of the leaderboard that is shown", found.document];
	yield ["Root hash of the log", to.root];
	yield ["Digest of the state", to.state];
	yield ["SHA-256 of the core", `${found.core}, as the checkpoint says`];
	yield ["Verifier key", found.key];
	yield ["Your last visit", found.before ? `${count(found.before.size)} events, which this log continues` : "none that this browser knows"];
	yield ["Your next visit", found.remembered ? "checks that its log continues this one" : "knows nothing: this browser does not store it"];
	yield ["What this cannot show", UNKNOWN];
}

/** What no page of the ring can show. */
const UNKNOWN =
	"This script comes from the ring, and a lying ring can send a lying script: webring verify is a program of your own. " +
	"The ring can show others another log, unless witnesses cosign it. And its operator can be one of those who pay.";

/** A link to a file that is made here. @type {(text: string, name: string, words: string) => HTMLElement} */
function fileOf(text, name, words) {
	const link = document.createElement("a");
	[link.href, link.download, link.textContent] = [URL.createObjectURL(new Blob([text], { type: "text/plain" })), name, words];
	const p = document.createElement("p");
	p.append(link);
	return p;
}

const form = /** @type {HTMLFormElement} */ (document.getElementById("verify"));
const [button, key] = [form.querySelector("button"), form.querySelector("input")];
const [progress, result] = ["progress", "result"].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
form.hidden = false;
form.addEventListener("submit", async (event) => {
	event.preventDefault();
	if (!button || !key || button.getAttribute("aria-disabled") === "true") return;
	button.setAttribute("aria-disabled", "true");
	result.replaceChildren();
	progress.className = "notice";
	let spoken = 0;
	const say = (/** @type {string} */ words) => {
		if (Date.now() - spoken < 500) return; // a screen reader reads all of them
		spoken = Date.now();
		progress.textContent = words;
	};
	let [good, verdict] = [false, ""];
	try {
		const { root = "", module = "" } = form.dataset;
		const found = await verify(new URL(root, location.href).href.replace(/\/$/, ""), module, key.value.trim(), say);
		good = !found.difference && !found.late;
		verdict = "The same to the byte. The log that the key signs gives the leaderboard that is shown.";
		if (found.late) verdict = `Not of now. ${found.late}`;
		if (found.difference) verdict = `Not the same. ${found.difference}`;
		const list = document.createElement("dl");
		list.className = "verified";
		for (const [term, words] of terms(found)) {
			const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
			[dt.textContent, dd.textContent] = [term, words];
			list.append(dt, dd);
		}
		result.append(list);
	} catch (error) {
		doubt = true;
		verdict = `Not verified: ${explain(error)}.`;
		if (error instanceof Contradiction)
			result.append(
				fileOf(error.evidence, "contradiction.txt", "Save the evidence. It stands alone: webring verify --evidence FILE checks it."),
			);
	}
	progress.textContent = verdict;
	progress.className = good ? "panel verdict good" : "panel verdict";
	button.removeAttribute("aria-disabled");
});
