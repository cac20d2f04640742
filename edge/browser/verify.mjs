// Presses the button of /verify at each node, behind a proxy that alters what passes, and where the
// browser remembers something, in Chromium and, if whole is true, shortly in Firefox, and prints what is wrong as JSON.
// Rows that are like another are left out unless whole is true.
// The one argument is JSON: { chromium, firefox?, nodes: [base], position, key, memory, whole? }. In memory
// are things that the ring's key has signed, as the page remembers them: { name, key, earlier,
// forged, longer }. For the evidence that the page gives it prints { do: evidence }.
import { readFileSync } from "node:fs";
import { Findings, launch, several, violations, watch } from "./chromium.mjs";
import { Guest } from "../worker/guest.js";
import { launchFirefox } from "./firefox.mjs";
import { fold } from "../worker/records.js";
import { records } from "../worker/tiles.js";

const plan = JSON.parse(process.argv[2]);
const found = new Findings();
const late = /\.wasm$|^\/(sync|log)\/|^\/api\/leaderboard$/;
const [leaderboard, checkpoint, program] = ["**/api/leaderboard", "**/sync/checkpoint", "**/*.wasm"];
const [entries, texts, tiles] = ["**/log/tile/entries/**", "**/log/texts/**", "**/log/tile/0/**"];
const withheld = () => ({ status: 404, body: "" });
const flip = (body) => { body[body.length >> 1] ^= 1; return { body }; };
const words = (of, by) => (body) => ({ body: Buffer.from(body.toString().replace(of, by)) });

// What a site shows that has the whole log and no key: answers of the core at positions and
// times of its choice, and of a core of its own, which says one word otherwise.
const DAY = 86_400;
const get = async (path) => new Uint8Array(await (await fetch(plan.nodes[0] + path)).arrayBuffer());
const core = await get(/data-module="([^"]+)"/.exec(new TextDecoder().decode(await get("/verify")))[1].replace(/^(?!\/)/, "/"));
const size = Number(new TextDecoder().decode(await get("/sync/checkpoint")).split("\n")[1]);
async function shown(module, seq, second) {
  const guest = new Guest(await WebAssembly.compile(module));
  for await (const { range } of records(get, 0, seq)) fold(guest, range);
  guest.tick(second);
  const headers = { "webring-seq": String(seq), date: new Date(second * 1000).toUTCString() };
  return { body: Buffer.from(guest.serve("/api/leaderboard").body), headers };
}
const now = () => Math.floor(Date.now() / 1000);
const own = Buffer.from(core);
for (let i = own.indexOf("to_take_first_usd"); i >= 0; i = own.indexOf("to_take_first_usd", i)) own.write("to_fake_first_usd", i);
const lie = await shown(own, size, now());
found.expect("a module of its own", "it lies", lie.body.includes("to_fake_first_usd") && !(await shown(core, size, now())).body.includes("to_fake_first_usd"));

const same = /^The same to the byte\. /;
const { name, key, ...signings } = plan.memory;
const remembered = (which) => [remember, { place: `verified ${name}`, last: JSON.stringify({ key, signed: signings[which] }) }];
const forked = /^Not verified: this ring has signed two histories: it shows another log than the one that it signed before\.$/;

// Each: what passes otherwise, the verdict, and what runs in the page before its own script: what the
// browser remembers, or by how much the reader's clock is ahead.
const altered = {
  "a bundle of events": [{ [entries]: flip }, /^Not verified: /],
  "a bundle of texts": [{ [texts]: flip }, /^Not verified: events /],
  "a bundle that is withheld": [{ [entries]: withheld }, /^Not verified: \/log\/tile\/entries\/.* was answered with status 404\.$/],
  "a log that goes on": [{}, same, remembered("earlier")],
  "tiles that are altered": [{ [tiles]: flip }, /^Not verified: the tiles of the log do not lead to the signed root\.$/, remembered("earlier")],
  "tiles that are withheld": [{ [tiles]: withheld }, /^Not verified: \/log\/tile\/0\/.* was answered with status 404\.$/, remembered("earlier")],
  "another history": [{}, forked, remembered("forged")],
  "another history, whose tiles are altered": [{ [tiles]: flip }, /^Not verified: the tiles of the log do not lead to the signed root\.$/, remembered("forged")],
  "a log that has become shorter": [{}, /^Not verified: the ring shows .* events, and had signed .* when you verified it last\.$/, remembered("longer")],
  "the leaderboard": [{ [leaderboard]: words(/"rank":1\b/, '"rank":7') }, /^Not the same\. /],
  "the checkpoint": [{ [checkpoint]: words(/\ntime \d/, "\ntime 9") }, /^Not verified: /],
  "an old leaderboard": [{ [leaderboard]: async () => shown(core, size >> 1, now()) }, /^Not verified: the leaderboard is of .* were signed before .* an old one\.$/],
  "a leaderboard of next year": [{ [leaderboard]: async () => shown(core, size, now() + 365 * DAY) }, /^Not of now\. This is the leaderboard as it was at .*; your clock says /],
  "a signature of yesterday": [{ [leaderboard]: async () => shown(core, size, now() + DAY) }, /^Not of now\. .* the newest signature is of /, [clock, DAY * 1000]],
  "a reader whose clock is wrong": [{}, /^Not of now\. .* If your clock is wrong, set it /, [clock, -DAY * 1000]],
  "a module of its own": [{ [program]: () => ({ body: own }), [leaderboard]: () => lie }, /^Not verified: the log is signed by another build of the core \(/],
};

const likeOthers = ["a bundle that is withheld", "tiles that are withheld", "another history, whose tiles are altered", "a leaderboard of next year", "a signature of yesterday"];
if (!plan.whole) for (const name of likeOthers) delete altered[name];

const browser = await launch(plan.chromium);
const at = plan.nodes[0];
await several([
  ...plan.nodes.map((base) => [base, base, "", {}, same]),
  ...Object.entries(altered).map(([name, [changes, verdict, first]]) => [name, at, "", changes, verdict, first]),
  ["another key", at, plan.key, {}, /^Not verified: /],
  ["without WebCrypto", at, "", {}, /^Not verified: .* over https/, [() => Object.defineProperty(crypto, "subtle", { value: undefined })]],
  ["no key", at, "ring.example+12", {}, /^Not verified: ring\.example\+12 is no verifier key\.$/],
], (one) => visit(...one));
await browser.close();
if (plan.firefox && plan.whole) {
  const other = await launchFirefox(plan.firefox, ["light"]);
  const page = await (await other.newContext({ viewport: { width: 640, height: 900 }, colorScheme: "light" })).newPage();
  await page.goto(`${at}/verify`, { waitUntil: "load" });
  const presses = async (what, verdict, visit) => {
    const { said, result } = await press(page);
    found.expect(`${what} in Firefox`, `it says ${verdict} and ${visit}`, verdict.test(said) && visit.test(result), said + result);
  };
  await presses("the first visit", same, /none that this browser knows/);
  await presses("the second visit", same, /events, which this log continues/);
  await page.evaluate(...remembered("forged"));
  await presses("another history", forked, /^Save the evidence\./);
  await other.close();
}
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

function clock(ahead) {
  const right = Date.now;
  Date.now = () => right() + ahead;
}

function remember({ place, last }) {
  localStorage.setItem(place, last);
}

// press has the page verify, and gives what it says then.
async function press(page) {
  await page.click("#verify button");
  await page.waitForFunction(() => document.getElementById("progress").classList.contains("verdict"), ...(page.route ? [null] : []), { timeout: 60_000 }).catch(() => {});
  const [said, result] = await page.evaluate(() => ["progress", "result"].map((id) => document.getElementById(id).textContent));
  return { said, result };
}

async function visit(where, base, key, changes, verdict, first) {
  const context = await browser.newContext({ viewport: { width: 320, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  if (first) await page.addInitScript(...first);
  const seen = watch(page, [base]);
  for (const [pattern, change] of Object.entries(changes))
    await page.route(pattern, async (route) => {
      const response = await route.fetch();
      const { status, body, headers } = await change(await response.body());
      await route.fulfill({ response, status, body, headers: { ...response.headers(), ...headers } });
    });
  await page.goto(`${base}/verify`, { waitUntil: "networkidle" });
  const before = seen.requests.filter((path) => late.test(path));
  found.expect(where, "nothing is loaded before the reader asks", before.length === 0, before.join(" "));
  if (key) await page.fill("#key", key);
  const { said, result } = await press(page);
  found.expect(where, `it says ${verdict}`, verdict.test(said), said);
  if (first?.[1]?.place && verdict === same) found.expect(where, "it knows the last visit", /events, which this log continues/.test(result), result);
  if (verdict === forked) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("#result a[download]")]);
    console.log(JSON.stringify({ do: readFileSync(await file.path(), "utf8") }));
  }
  if (/same|as it was/i.test(said)) found.expect(where, "it says what was verified", result.includes("Position" + plan.position) && /as the checkpoint says/.test(result), result);
  found.expect(where, "the module is loaded only then", seen.requests.some((path) => path.endsWith(".wasm")) || key || first, seen.requests.join(" "));
  const wrong = first && verdict !== forked ? [] : await violations(page); // it takes long
  found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  found.expect(where, "it fits a narrow screen", wide <= 320, wide);
  const words = seen.said.filter((said) => !(Object.values(changes).includes(withheld) && /status of 404/.test(said)));
  found.expect(where, "nothing is said in the console", words.length === 0, words.join("; "));
  found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
  await context.close();
}
