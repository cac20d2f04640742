// Takes pictures of the pages, to be looked at:
//
//	node shots.mjs --webring ../../bin/webring --out /tmp/shots [--rings 0,3,12,hard,2000]
//	    [--pages home,ring] [--widths 320,768,1440] [--schemes light,dark] [--first] [--base URL]
//
// It starts the binary with a synthetic ring of each number of members, "hard" being twelve
// with names that pages have to bear, and writes OUT/RING-PAGE-WIDTH-SCHEME.png. In the ring
// of three, sites that are checked score too low to join. --first takes the first screen
// alone. --base takes the pages of a ring that runs already, with the readiness report of a
// member that has one, which made-up members do not.
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launch, several } from "./chromium.mjs";
import { started } from "./ring.mjs";

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
  else for (const ring of list(given.rings)) await started(given.webring, ring, (base, removed) => take(ring, base, removed));
} finally {
  await browser.close();
}

// take writes the pictures of one ring, of which a member was removed.
async function take(ring, base, removed) {
  const read = async (path) => (await fetch(base + path)).json();
  const rows = (await read("/api/leaderboard?limit=8")).leaderboard;
  const { total, members } = await read("/api/ring?limit=100");
  const paths = { home: "/", ring: "/ring", leaderboard: "/leaderboard", join: "/join", embed: "/embed", docs: "/docs", about: "/about", verify: "/verify",
    problems: "/problems", problem: "/problems/unknown_member", missing: "/members/no-such-member", checked: "/join", wrong: "/join",
    found: "/ring?q=" + (rows[0]?.slug.split("-")[0] ?? "site"), "found-none": "/ring?q=zzzz", newest: "/ring?sort=newest" };
  // First, one in the middle, and the last that was read.
  rows.forEach((r, i) => { if ([0, 4, rows.length - 1].includes(i)) paths[`member${i + 1}`] = "/members/" + r.slug; });
  if (rows.length > 0) Object.assign(paths, { category: "/categories/" + rows[0].category, "embed-member": "/embed?from=" + rows[0].slug });
  if (removed) paths.gone = "/members/" + removed;
  if (total > 100) Object.assign(paths, { "leaderboard-2": "/leaderboard?page=2", "ring-2": "/ring?page=2" });
  const report = members.find((m) => m.agentic_report?.startsWith(base + "/reports/"));
  if (report) paths.report = report.agentic_report.slice(base.length);
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
          await page.$$eval("form.draft details", (all) => all.forEach((e) => (e.open = true)));
          await page.check("#kind-website");
          await page.check("#opening-own", { force: true });
          for (const [field, value] of Object.entries(fills[name])) await page.fill(`#${field}`, value);
          await Promise.all([page.waitForNavigation(), page.click("form[method=post] button:not([type=button])")]);
        }
        await page.evaluate(() => Promise.all([document.fonts.ready, ...[...document.images].map((i) => { i.loading = "eager"; return i.decode(); })]));
        await page.screenshot({ path: join(given.out, `${ring}-${name}-${width}-${scheme}.png`), fullPage: !given.first });
      }
      await context.close();
    }
  });
  console.log(`${ring}: ${pages.length} pages in ${given.out}`);
}
