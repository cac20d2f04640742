// Takes pictures of the pages, to be looked at:
//
//	node shots.mjs --webring ../../bin/webring --out /tmp/shots [--rings 0,3,12,hard,2000]
//	    [--pages home,ring] [--widths 320,768,1440] [--schemes light,dark] [--first] [--base URL]
//
// It starts the binary with a synthetic ring of each number of members, "hard" being twelve
// with names that pages have to bear, and writes OUT/RING-PAGE-WIDTH-SCHEME.png. --first
// takes the first screen alone. --base takes the pages of a ring that runs already.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launch, several } from "./chromium.mjs";

const { values: given } = parseArgs({ options: {
  webring: { type: "string", default: "../../bin/webring" }, out: { type: "string", default: join(tmpdir(), "shots") },
  chromium: { type: "string", default: "/usr/bin/chromium" }, base: { type: "string" }, first: { type: "boolean", default: false },
  rings: { type: "string", default: "0,3,12,hard,2000" }, pages: { type: "string", default: "" },
  widths: { type: "string", default: "320,768,1440" }, schemes: { type: "string", default: "light,dark" },
} });
const list = (s) => s.split(",").filter(Boolean);

mkdirSync(given.out, { recursive: true });
const browser = await launch(given.chromium);
try {
  if (given.base) await take("ring", given.base);
  else for (const ring of list(given.rings)) await started(ring, (base) => take(ring, base));
} finally {
  await browser.close();
}

// started calls work with the address of an origin with so many made-up members.
async function started(ring, work) {
  const data = mkdtempSync(join(tmpdir(), "ring-"));
  const port = await new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
  });
  const base = `http://127.0.0.1:${port}`;
  const members = ring === "hard" ? 12 : Number(ring);
  if (members > 0)
    execFileSync(given.webring, ["seed", "--members", members, "--data", data, "--seed", "4", ...(ring === "hard" ? ["--hard-names"] : [])]);
  const origin = spawn(given.webring, ["serve", "--dev", "--scorer", "fixed:72", "--listen", `127.0.0.1:${port}`, "--base-url", base, "--data", data,
    "--rate-limit", "0", "--admin-listen", "", "--report", "mailto:abuse@operator.example"], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((done) => origin.on("exit", done));
  try {
    for (;;) {
      if (origin.exitCode !== null) throw new Error(`${given.webring} ended with ${origin.exitCode}`);
      if (await fetch(base + "/api").then((r) => r.ok, () => false)) break;
      await new Promise((go) => setTimeout(go, 100));
    }
    await work(base);
  } finally {
    origin.kill("SIGTERM");
    await ended;
    rmSync(data, { recursive: true, force: true });
  }
}

// take writes the pictures of one ring.
async function take(ring, base) {
  const board = await (await fetch(base + "/api/leaderboard?limit=8")).json();
  const rows = board.leaderboard;
  const paths = { home: "/", ring: "/ring", leaderboard: "/leaderboard", join: "/join", embed: "/embed", docs: "/docs", about: "/about", verify: "/verify",
    problem: "/problems/unknown_member", missing: "/members/no-such-member", checked: "/join", wrong: "/join" };
  // First, one in the middle, and the last that was read.
  rows.forEach((r, i) => { if ([0, 4, rows.length - 1].includes(i)) paths[`member${i + 1}`] = "/members/" + r.slug; });
  if (rows.length > 0) Object.assign(paths, { category: "/categories/" + rows[0].category, "embed-member": "/embed?from=" + rows[0].slug });
  const fills = { checked: { name: "A site", url: "https://a-site.dev/", bid: "3" }, wrong: { name: "A site", url: "https://a-site.local/", bid: "0.3" } };
  const asked = list(given.pages);
  const pages = Object.entries(paths).filter(([name]) => asked.length === 0 || asked.some((a) => name === a || name.startsWith(a) && /^\d+$/.test(name.slice(a.length))));
  await several(pages, async ([name, path]) => {
    for (const scheme of list(given.schemes)) {
      const context = await browser.newContext({ colorScheme: scheme, reducedMotion: "reduce" });
      const page = await context.newPage();
      for (const width of list(given.widths).map(Number)) {
        await page.setViewportSize({ width, height: width < 600 ? 844 : 900 });
        const answer = await page.goto(base + path, { waitUntil: "load" });
        if (!answer.headers()["content-type"]?.startsWith("text/html")) {
          console.error(`${path}: ${answer.status()}, no page`);
          break;
        }
        if (fills[name]) {
          await page.check("#kind-website");
          await page.check("#opening-own", { force: true });
          for (const [field, value] of Object.entries(fills[name])) await page.fill(`#${field}`, value);
          await Promise.all([page.waitForNavigation(), page.click("form[method=post] button:not([type=button])")]);
        }
        await page.evaluate(() => document.fonts.ready);
        await page.screenshot({ path: join(given.out, `${ring}-${name}-${width}-${scheme}.png`), fullPage: !given.first });
      }
      await context.close();
    }
  });
  console.log(`${ring}: ${pages.length} pages in ${given.out}`);
}
