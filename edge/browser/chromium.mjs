// What both tests do with the browser.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// launch starts the browser. It is tried again: a busy machine has been seen to
// lose it at its start, which says nothing about the pages.
export async function launch(executablePath) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await chromium.launch({
        executablePath,
        timeout: 60_000,
        args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync"],
      });
    } catch (e) {
      if (attempt === 3) throw e;
    }
  }
}

// several calls work on each item, a few at a time: a page that loads leaves a
// processor free.
export async function several(items, work, length = 3) {
  const waiting = [...items];
  await Promise.all(Array.from({ length }, async () => {
    while (waiting.length > 0) await work(waiting.shift());
  }));
}

// findings collects what is wrong, each with the case in which it was seen.
export class Findings {
  list = [];
  checks = 0;
  expect(where, what, holds, more = "") {
    this.checks++;
    if (!holds) this.list.push({ where, what, more: String(more).slice(0, 600) });
  }
}

// watch notes everything a page says in its console, every failure, and every
// request to somewhere else.
export function watch(page, origins) {
  const seen = { said: [], elsewhere: [], requests: [] };
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && seen.said.push(m.text()));
  page.on("pageerror", (e) => seen.said.push(String(e)));
  page.on("dialog", (d) => { seen.said.push("dialog: " + d.message()); d.dismiss(); });
  page.on("request", (r) => {
    const u = new URL(r.url());
    seen.requests.push(u.pathname);
    if (u.protocol !== "data:" && !origins.includes(u.origin)) seen.elsewhere.push(r.url());
  });
  return seen;
}

// shifts is the layout shift of the page so far.
export const shifts = (page) =>
  page.evaluate(() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => (sum += e.value))).observe({ type: "layout-shift", buffered: true });
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum), 30)));
  }));

// Isolated from the page's policy: the tool is ours, not the page's.
export async function violations(page) {
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send("Page.getFrameTree");
  const { executionContextId } = await client.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const run = async (expression) => {
    const r = await client.send("Runtime.evaluate", { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description ?? "axe failed");
    return r.result.value;
  };
  await run(axe + ";0");
  const found = await run(`axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: { "target-size": { enabled: true } } })
    .then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ") + " — " + (n.any[0] ?? n.all[0] ?? n.none[0])?.message).slice(0, 3).join(" | ")))`);
  await client.detach();
  return found;
}
