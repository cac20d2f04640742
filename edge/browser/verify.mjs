// Presses the button of /verify at each node, and once more behind a proxy that alters what
// passes, and prints what is wrong as JSON. The one argument is JSON:
// { chromium, nodes: [base], position, key }.
import { Findings, launch, violations, watch } from "./chromium.mjs";

const plan = JSON.parse(process.argv[2]);
const found = new Findings();
const late = /\.wasm$|^\/sync\/|^\/api\/leaderboard$/;
const flip = (body) => { body[body.length >> 1] ^= 1; return body; };
// Of the whole ledger, or of the leaderboard, one bit is another; and a digit that JSON bears.
const altered = {
  "a range of events": ["**/sync/events?*", flip, /^Not verified: /],
  "the leaderboard": ["**/api/leaderboard", (body) => Buffer.from(body.toString().replace(/"rank":1\b/, '"rank":7')), /^Not the same\. /],
  "the checkpoint": ["**/sync/checkpoint", (body) => Buffer.from(body.toString().replace(/\ntime \d/, "\ntime 9")), /^Not verified: /],
};

const browser = await launch(plan.chromium);
for (const base of plan.nodes) await visit(base, base, "", null, /^The same to the byte\. /);
for (const [name, [pattern, change, verdict]] of Object.entries(altered)) await visit(name, plan.nodes[0], "", [pattern, change], verdict);
await visit("another key", plan.nodes[0], plan.key, null, /^Not verified: /);
await visit("without WebCrypto", plan.nodes[0], "", null, /^Not verified: .* over https/, () => Object.defineProperty(crypto, "subtle", { value: undefined }));
await visit("no key", plan.nodes[0], "ring.example+12", null, /^Not verified: ring\.example\+12 is no verifier key\.$/);
await browser.close();
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

async function visit(where, base, key, change, verdict, first) {
  const context = await browser.newContext({ viewport: { width: 320, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  if (first) await page.addInitScript(first);
  const seen = watch(page, [base]);
  if (change)
    await page.route(change[0], async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: change[1](await response.body()) });
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
  if (/same/i.test(said)) found.expect(where, "it says what was verified", result.includes("Position" + plan.position) && /as the checkpoint says/.test(result), result);
  found.expect(where, "the module is loaded only then", seen.requests.some((path) => path.endsWith(".wasm")) || key || first, seen.requests.join(" "));
  const wrong = await violations(page);
  found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  found.expect(where, "it fits a narrow screen", wide <= 320, wide);
  found.expect(where, "nothing is said in the console", seen.said.length === 0, seen.said.join("; "));
  found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
  await context.close();
}
