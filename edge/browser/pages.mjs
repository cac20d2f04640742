// Opens pages in Chromium at every width, in both schemes, with and without
// script, and prints what is wrong with them as JSON. The one argument is JSON:
// { chromium, base, pages: [{ name, path, fill?, rows?, status? }], shots? }. fill is what
// is typed into the form of the page, which is then sent; rows says that it has a
// leaderboard; status is that of a page that is shown in place of an error, and 200 unless
// it is given.
import { mkdirSync } from "node:fs";
import { HtmlValidate } from "html-validate";
import { Findings, launch, several, shifts, violations, watch } from "./chromium.mjs";

const plan = JSON.parse(process.argv[2]);
const widths = [320, 768, 1440];
const schemes = ["light", "dark"];
const found = new Findings();
const rules = new HtmlValidate({ extends: ["html-validate:recommended"], rules: {
  // The generator of the pages writes these in its own way.
  "doctype-style": "off", "void-style": "off", "no-trailing-whitespace": "off",
  // Titles are made of members' names.
  "long-title": "off",
} });
if (plan.shots) mkdirSync(plan.shots, { recursive: true });

const browser = await launch(plan.chromium);
await several(plan.pages, visit);
await browser.close();
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

// visit loads a page at each width with script, and once without, and looks at
// each in both schemes.
async function visit({ name, path, fill, rows, status = 200 }) {
  let words;
  for (const javaScriptEnabled of [true, false]) {
    // Error pages show the id of their request.
    const context = await browser.newContext({ javaScriptEnabled, reducedMotion: "reduce", extraHTTPHeaders: { "X-Request-Id": "the-same-request" } });
    const page = await context.newPage();
    const seen = watch(page, [plan.base]);
    let where = name;
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: "light" });
      where = `${name} ${width}${javaScriptEnabled ? "" : " without script"}`;
      if (javaScriptEnabled || width === widths[0]) {
        const response = await page.goto(plan.base + path, { waitUntil: "load" });
        found.expect(where, "the page is there", response.status() === status, response.status());
        if (fill) await submit(page, fill);
        if (javaScriptEnabled) {
          const shift = await shifts(page);
          found.expect(where, "nothing moves", shift <= 0.02, shift);
        }
        const now = await wordsOf(page);
        found.expect(where, "nothing is missing without script", javaScriptEnabled || now === words, now);
        words = now;
        if (!javaScriptEnabled && !fill) {
          const more = seen.requests.slice(1).filter((p) => !/^\/badge\/|^\/static\/(icon|face)-/.test(p));
          found.expect(where, "it takes one style sheet and one face to show", more.length === 1 && more[0].endsWith(".css"), more.join(" "));
        }
      }
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        const at = `${where} ${colorScheme}`;
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        found.expect(at, "nothing is wider than the window", wide <= 0, wide);
        if (javaScriptEnabled && (width === 320 || colorScheme === "light")) {
          const wrong = await violations(page);
          found.expect(at, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
        }
        if (plan.shots && javaScriptEnabled) await page.screenshot({ path: `${plan.shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      }
      if (javaScriptEnabled && width === 320) await keyboard(page, where);
      if (javaScriptEnabled && width === 1440) await refreshed(page, where);
      if (javaScriptEnabled && rows && width === widths.at(-1)) await low(page, `${name} 390`);
    }
    if (!javaScriptEnabled) {
      const report = await rules.validateString(await (await fetch(page.url(), { headers: { Accept: "text/html" } })).text());
      found.expect(where, "html-validate finds nothing", fill || report.valid,
        report.results.flatMap((r) => r.messages.map((m) => `${m.line}:${m.column} ${m.ruleId} ${m.message}`)).join("\n"));
    }
    // The browser itself says of an error page that it is one.
    if (status >= 400) seen.said = seen.said.filter((s) => !s.includes(`status of ${status}`));
    found.expect(where, "nothing is said in the console", seen.said.length === 0, seen.said.join("; "));
    found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
    await context.close();
  }
}

// low: on a phone no row of a leaderboard takes much, however long the names in it are.
async function low(page, where) {
  await page.setViewportSize({ width: 390, height: 844 });
  const tall = await page.evaluate(() => {
    const rows = [...document.querySelectorAll(".lb tbody tr")];
    const name = rows[1].querySelector("th bdi"), host = rows[1].querySelector(".host");
    name.textContent = "W".repeat(80);
    host.textContent = "a-very-long-host.of-34-characters.";
    return [rows.length, Math.max(...rows.map((r) => r.getBoundingClientRect().height))];
  });
  found.expect(where, "rows are at most 110 pixels high on a phone", tall[1] <= 110, tall.join(" rows, "));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  found.expect(where, "nothing is wider than a phone", wide <= 0, wide);
}

// wordsOf is what there is to read, apart from the widget, which says more with
// script, from the buttons that copy, and from the numbers and the order of the members, which change while
// the test runs.
function wordsOf(page) {
  return page.evaluate(() => {
    const copy = document.body.cloneNode(true);
    copy.querySelectorAll("webring-online, .copy").forEach((e) => e.remove());
    return [...copy.querySelectorAll("*")].flatMap((e) => [...e.childNodes]).filter((n) => n.nodeType === Node.TEXT_NODE)
      .map((n) => n.data.trim().replace(/[0-9]+/g, "0")).sort().join(" ");
  });
}

// refreshed: what went stale on the screen becomes true again by itself.
async function refreshed(page, where) {
  const stale = await page.evaluate(() => {
    const cell = document.querySelector("[data-live]");
    if (!cell) return false;
    cell.textContent = "stale";
    document.dispatchEvent(new Event("visibilitychange"));
    return true;
  });
  if (!stale) return;
  const mended = await page.waitForFunction(() => document.querySelector("[data-live]").textContent !== "stale").then(() => true, () => false);
  found.expect(where, "numbers are refreshed", mended);
}

async function submit(page, fill) {
  for (const [field, value] of Object.entries(fill)) {
    if (field === "kind") await page.check(`#kind-${value}`);
    else await page.fill(`#${field}`, value);
  }
  await Promise.all([page.waitForNavigation(), page.click("form[method=post] button")]);
}

// Everything that can be pointed at can be reached with Tab, in the order of
// the page, is on the screen then, and shows that it is.
async function keyboard(page, where) {
  const expected = await page.evaluate(() => {
    const able = [...document.querySelectorAll("a[href], button, input, select, summary, textarea, [tabindex]")].filter((e) =>
      e.tabIndex >= 0 && e.checkVisibility() && !(e.type === "radio" && e !== (document.querySelector(`input[name="${e.name}"]:checked`) ?? document.querySelector(`input[name="${e.name}"]`))));
    able.forEach((e, i) => (e.stop = i));
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    scrollTo(0, 0);
    return able.length;
  });
  const limit = Math.min(expected, 45);
  for (let i = 0; i < limit; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
      return {
        stop: e.shadowRoot ? "shadow" : e.stop, what: e.outerHTML.slice(0, 90),
        there: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
      };
    });
    if (at.stop === "shadow") { i--; continue; } // the widget's own links come between
    found.expect(where, `stop ${i} of ${expected} is reached`, at.stop === i, `${at.stop}: ${at.what}`);
    found.expect(where, "what has the focus is on the screen", at.there, at.what);
    found.expect(where, "what has the focus shows it", at.shown, at.what);
    if (at.stop !== i) return;
  }
}
