// Presses the button of /verify at each node, and once more behind a proxy that alters what
// passes, and prints what is wrong as JSON. The one argument is JSON:
// { chromium, nodes: [base], position, key }.
import { Findings, launch, several, violations, watch } from "./chromium.mjs";
import { Guest } from "../worker/guest.js";
import { fold, read } from "../worker/records.js";
import { Tree } from "../worker/tree.js";

const plan = JSON.parse(process.argv[2]);
const found = new Findings();
const late = /\.wasm$|^\/sync\/|^\/api\/leaderboard$/;
const [events, leaderboard, checkpoint, program] = ["**/sync/events?*", "**/api/leaderboard", "**/sync/checkpoint", "**/*.wasm"];
const flip = (body) => { body[body.length >> 1] ^= 1; return { body }; };
const words = (of, by) => (body) => ({ body: Buffer.from(body.toString().replace(of, by)) });

// What a site shows that has the whole ledger and no key: answers of the core at positions and
// times of its choice, and of a core of its own, which says one word otherwise.
const DAY = 86_400;
const get = async (path) => new Uint8Array(await (await fetch(plan.nodes[0] + path)).arrayBuffer());
const core = await get(/data-module="([^"]+)"/.exec(new TextDecoder().decode(await get("/verify")))[1].replace(/^(?!\/)/, "/"));
const size = Number(new TextDecoder().decode(await get("/sync/checkpoint")).split("\n")[1]);
async function shown(module, seq, second) {
  const [guest, tree] = [new Guest(await WebAssembly.compile(module)), new Tree()];
  while (tree.size < seq) fold(guest, read(await get(`/sync/events?from=${tree.size}`), tree, seq));
  guest.tick(second);
  const headers = { "webring-seq": String(seq), date: new Date(second * 1000).toUTCString() };
  return { body: Buffer.from(guest.serve("/api/leaderboard").body), headers };
}
const now = () => Math.floor(Date.now() / 1000);
const own = Buffer.from(core);
for (let i = own.indexOf("to_take_first_usd"); i >= 0; i = own.indexOf("to_take_first_usd", i)) own.write("to_fake_first_usd", i);
const lie = await shown(own, size, now());
found.expect("a module of its own", "it lies", lie.body.includes("to_fake_first_usd") && !(await shown(core, size, now())).body.includes("to_fake_first_usd"));

// Each: what passes otherwise, the verdict, and by how much the reader's clock is ahead.
const altered = {
  "a range of events": [{ [events]: flip }, /^Not verified: /],
  "the leaderboard": [{ [leaderboard]: words(/"rank":1\b/, '"rank":7') }, /^Not the same\. /],
  "the checkpoint": [{ [checkpoint]: words(/\ntime \d/, "\ntime 9") }, /^Not verified: /],
  "an old leaderboard": [{ [leaderboard]: async () => shown(core, size >> 1, now()) }, /^Not verified: the leaderboard is of .* were signed before .* an old one\.$/],
  "a leaderboard of next year": [{ [leaderboard]: async () => shown(core, size, now() + 365 * DAY) }, /^Not of now\. This is the leaderboard as it was at .*; your clock says /],
  "a signature of yesterday": [{ [leaderboard]: async () => shown(core, size, now() + DAY) }, /^Not of now\. .* the newest signature is of /, DAY],
  "a reader whose clock is wrong": [{}, /^Not of now\. .* If your clock is wrong, set it /, -DAY],
  "a module of its own": [{ [program]: () => ({ body: own }), [leaderboard]: () => lie }, /^Not verified: the ledger is signed by another build of the core \(/],
};

const browser = await launch(plan.chromium);
const at = plan.nodes[0];
await several([
  ...plan.nodes.map((base) => [base, base, "", {}, /^The same to the byte\. /]),
  ...Object.entries(altered).map(([name, [changes, verdict, ahead]]) => [name, at, "", changes, verdict, ahead && [clock, ahead * 1000]]),
  ["another key", at, plan.key, {}, /^Not verified: /],
  ["without WebCrypto", at, "", {}, /^Not verified: .* over https/, [() => Object.defineProperty(crypto, "subtle", { value: undefined })]],
  ["no key", at, "ring.example+12", {}, /^Not verified: ring\.example\+12 is no verifier key\.$/],
], (one) => visit(...one));
await browser.close();
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

function clock(ahead) {
  const right = Date.now;
  Date.now = () => right() + ahead;
}

async function visit(where, base, key, changes, verdict, first) {
  const context = await browser.newContext({ viewport: { width: 320, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  if (first) await page.addInitScript(...first);
  const seen = watch(page, [base]);
  for (const [pattern, change] of Object.entries(changes))
    await page.route(pattern, async (route) => {
      const response = await route.fetch();
      const { body, headers } = await change(await response.body());
      await route.fulfill({ response, body, headers: { ...response.headers(), ...headers } });
    });
  await page.goto(`${base}/verify`, { waitUntil: "networkidle" });
  const before = seen.requests.filter((path) => late.test(path));
  found.expect(where, "nothing is loaded before the reader asks", before.length === 0, before.join(" "));
  if (key) await page.fill("#key", key);
  await page.click("#verify button");
  await page.waitForFunction(() => document.getElementById("progress").classList.contains("verdict"), null, { timeout: 60_000 }).catch(() => {});
  const said = await page.textContent("#progress");
  found.expect(where, `it says ${verdict}`, verdict.test(said), said);
  const result = await page.textContent("#result");
  if (/same|as it was/i.test(said)) found.expect(where, "it says what was verified", result.includes("Position" + plan.position) && /as the checkpoint says/.test(result), result);
  found.expect(where, "the module is loaded only then", seen.requests.some((path) => path.endsWith(".wasm")) || key || first, seen.requests.join(" "));
  const wrong = await violations(page);
  found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  found.expect(where, "it fits a narrow screen", wide <= 320, wide);
  found.expect(where, "nothing is said in the console", seen.said.length === 0, seen.said.join("; "));
  found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
  await context.close();
}
