// Measures pages with Lighthouse, on a ring of 2000 made-up members, and fails unless each
// category has 98 points or more. make lighthouse runs it. The one argument is the binary. npx
// fetches Lighthouse, whose 185 MB are in no package.json here; it needs a processor for itself.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { started } from "./ring.mjs";

const lighthouse = "lighthouse@13.5.0";
const categories = ["performance", "accessibility", "best-practices", "seo"], least = 98;
const run = promisify(execFile);

await started(process.argv[2], "2000", async (base) => {
  const { leaderboard } = await (await fetch(base + "/api/leaderboard?limit=1")).json();
  for (const path of ["/", "/ring", "/leaderboard", "/members/" + leaderboard[0].slug, "/join"]) {
    const { stdout } = await run("npx", ["--yes", lighthouse, base + path, "--quiet", "--output=json", "--only-categories=" + categories,
      "--chrome-flags=--headless=new --no-sandbox --disable-gpu"],
    { maxBuffer: 64 << 20, env: { CHROME_PATH: "/usr/bin/chromium", ...process.env } });
    const report = JSON.parse(stdout);
    const scores = categories.map((c) => Math.round(report.categories[c].score * 100));
    console.log(`${path}: ${categories.map((c, i) => `${c} ${scores[i]}`).join(", ")}; ` +
      ["first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "cumulative-layout-shift"].map((a) => `${a} ${report.audits[a].displayValue}`).join(", "));
    for (const [c, score] of categories.map((c, i) => [c, scores[i]])) {
      if (score >= least) continue;
      process.exitCode = 1;
      for (const { id, weight } of report.categories[c].auditRefs)
        if (weight > 0 && report.audits[id].score !== null && report.audits[id].score < 1) console.log(`  ${id}: ${report.audits[id].title}`);
    }
  }
});
