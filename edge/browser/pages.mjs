// Opens pages in Chromium at several widths, in both schemes, with and without
// script, and once more in Firefox if there is one, and prints what is wrong with them as
// JSON. Unless whole is true, pages without a leaderboard are not opened at the middle width, pages
// like others only at the narrowest one, and axe-core reads a page once. The one argument is JSON:
// { chromium, firefox?, base, pages: [{ name, path, base?, fill?, rows?, like?, status? }], whole?, shots? }.
// A page may lie at a base of its own; fill is what is typed into the form of the page, which
// is then sent; rows says that it has a leaderboard, and like that the other pages have all of its
// parts; status is that of a page that is shown in
// place of an error, and 200 unless it is given.
import { mkdirSync } from "node:fs";
import { HtmlValidate } from "html-validate";
import { Findings, launch, several, shifts, violations, watch } from "./chromium.mjs";
import { launchFirefox } from "./firefox.mjs";

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

const texts = {}; // what there is to read on a page, by its name
const browser = await launch(plan.chromium);
await several(plan.pages, visit);
await browser.close();
if (plan.firefox) {
  const other = await launchFirefox(plan.firefox, ["light"]);
  // In one window, page after page: windows that come and go at a time have failed to open.
  const context = await other.newContext({ viewport: { width: widths[0], height: 900 }, colorScheme: "light" });
  const page = await context.newPage();
  await page.evaluateOnNewDocument(() => addEventListener("securitypolicyviolation", (e) => (self.refused ??= []).push(`${e.violatedDirective} ${e.blockedURI}`)));
  const said = [];
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && said.push(m.text()));
  page.on("pageerror", (e) => said.push(String(e)));
  for (const p of plan.pages) await visitInFirefox(page, said, p);
  await other.close();
}
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

// visit loads a page at each width with script, and once without, and looks at
// each in both schemes.
async function visit({ name, path, base = plan.base, fill, rows, like, status = 200 }) {
  for (const javaScriptEnabled of [true, false]) {
    const context = await browser.newContext({ javaScriptEnabled, reducedMotion: "reduce" });
    const page = await context.newPage();
    const seen = watch(page, [base]);
    let where = name, html = "";
    for (const width of plan.whole ? widths : like ? [widths[0]] : rows ? widths : [widths[0], widths.at(-1)]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: "light" });
      where = `${name} ${width}${javaScriptEnabled ? "" : " without script"}`;
      if (javaScriptEnabled || width === widths[0]) {
        let response = await page.goto(base + path, { waitUntil: "load" });
        found.expect(where, "the page is there", response.status() === status, response.status());
        if (fill) response = await submit(page, fill);
        html = await response.text();
        if (javaScriptEnabled) {
          const shift = await shifts(page);
          found.expect(where, "nothing moves", shift <= 0.02, shift);
        }
        let now = await wordsOf(page), missing = "";
        // The ring may have gone on since the page was read with script, so it is read with it once more.
        for (let i = 0; !javaScriptEnabled && (missing = difference(texts[name], now)) && i < 3; i++) {
          texts[name] = await wordsWithScript(base + path, fill);
          await page.goto(base + path, { waitUntil: "load" });
          if (fill) await submit(page, fill);
          now = await wordsOf(page);
        }
        found.expect(where, "nothing is missing without script", !missing, missing);
        texts[name] = now;
        const hole = now.match(/.{0,40}(undefined|NaN|Invalid Date|\[object |<no value>|%!).{0,40}/s);
        found.expect(where, "it has words for everything", !hole, hole?.[0]);
        if (!javaScriptEnabled && !fill) {
          const more = seen.requests.slice(1).filter((p) => !/^\/(badge|cards)\/|^\/static\/(icon|face)-|\/icon\.png$/.test(p));
          found.expect(where, "it takes one style sheet and one face to show", more.length === 1 && more[0].endsWith(".css"), more.join(" "));
        }
      }
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        const at = `${where} ${colorScheme}`;
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        found.expect(at, "nothing is wider than the window", wide <= 0, wide);
        const edges = await page.evaluate(() => [...document.querySelectorAll("tbody th > a > bdi")].map((e) => Math.round(e.getBoundingClientRect().left)));
        found.expect(at, "names of all scripts begin at the same edge", new Set(edges).size <= 1, edges.join(" "));
        // Rules about layout need one scheme, and those about contrast one width. Every second page
        // is read in each, since all have one style sheet.
        const [once, scheme] = like || plan.pages.findIndex((p) => p.name === name) % 2 ? [320, "light"] : [1440, "dark"];
        if (javaScriptEnabled && (plan.whole || width === once && colorScheme === scheme)) {
          const wrong = await violations(page);
          found.expect(at, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
        }
        if (plan.shots && javaScriptEnabled) await page.screenshot({ path: `${plan.shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      }
      if (javaScriptEnabled) {
        await firstScreen(page, where, width, path === "/");
        await enlarged(page, where);
      }
      if (javaScriptEnabled && width === 320) await keyboard(page, where);
      if (javaScriptEnabled && width === 1440) await refreshed(page, where);
      if (javaScriptEnabled && rows && width === widths.at(-1)) await low(page, name);
      if (javaScriptEnabled && path === "/ring" && width === widths.at(-1)) await lively(page, where);
    }
    if (javaScriptEnabled && path === "/") await phone(page, name, base);
    if (!javaScriptEnabled) {
      const report = await rules.validateString(html);
      found.expect(where, "html-validate finds nothing", report.valid,
        report.results.flatMap((r) => r.messages.map((m) => `${m.line}:${m.column} ${m.ruleId} ${m.message}`)).join("\n"));
    }
    // The browser itself says of an error page that it is one.
    if (status >= 400) seen.said = seen.said.filter((s) => !s.includes(`status of ${status}`));
    found.expect(where, "nothing is said in the console", seen.said.length === 0, seen.said.join("; "));
    found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
    await context.close();
  }
}

// visitInFirefox loads a page at the narrowest width, looks at it there and at the widest, and
// compares what there is to read.
async function visitInFirefox(page, said, { name, path, base = plan.base, fill, status = 200 }) {
  said.length = 0;
  await page.setViewport({ width: widths[0], height: 900 });
  const response = await page.goto(base + path, { waitUntil: "load" });
  // It may have the page from before, and ask whether that still holds.
  found.expect(`${name} in Firefox`, "the page is there", [status, 304].includes(response.status()), response.status());
  if (fill) {
    await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.evaluate((fill) => {
      const form = document.querySelector("form[method=post]");
      if (fill.bid) document.querySelector("#opening-own").checked = true;
      for (const [field, value] of Object.entries(fill)) {
        if (field === "kind" || field === "opening") document.querySelector(`#${field}-${value}`).checked = true;
        else document.querySelector(`#${field}`).value = value;
      }
      form.requestSubmit(form.querySelector("button"));
    }, fill)]);
  }
  const words = await wordsOf(page);
  found.expect(`${name} in Firefox`, "it says what it says in Chromium", words === texts[name], words);
  for (const width of [widths[0], widths.at(-1)]) {
    await page.setViewport({ width, height: 900 });
    const [inner, wide] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth - innerWidth]);
    found.expect(`${name} ${width} in Firefox`, "the window is as wide as asked", inner === width, inner);
    found.expect(`${name} ${width} in Firefox`, "nothing is wider than the window", wide <= 0, wide);
  }
  const refused = await page.evaluate(() => self.refused ?? []);
  found.expect(`${name} in Firefox`, "the policy refuses nothing", refused.length === 0, refused.join("; "));
  found.expect(`${name} in Firefox`, "nothing is said in the console", said.length === 0, said.join("; "));
}

// firstScreen: the first action, which a home page always has, is on the first screen,
// however long the name above it is.
async function firstScreen(page, where, width, always) {
  const bottom = await page.evaluate(() => document.querySelector("main .promise .button, main .stage .button")?.getBoundingClientRect().bottom);
  const most = width < 600 ? 640 : 900;
  found.expect(where, `the first action is within ${most} px`, bottom === undefined ? !always : bottom <= most, bottom);
}

// enlarged: with text of twice the size, the page is no wider than the window.
async function enlarged(page, where) {
  const client = await page.context().newCDPSession(page);
  await client.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
  const wide = await page.evaluate(() => {
    const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const over = document.documentElement.scrollWidth - innerWidth;
    const far = over <= 0 ? [] : [...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1);
    return { size, over, far: far.slice(-3).map((e) => e.outerHTML.slice(0, 120)) };
  });
  found.expect(where, "text can be enlarged", wide.size === 32, wide.size);
  found.expect(where, "text of twice the size fits", wide.over <= 0, `${wide.over}: ${wide.far.join(" ")}`);
  await client.send("Page.setFontSizes", { fontSizes: { standard: 16, fixed: 13 } });
  await client.detach();
}

// phone: the board begins within the second screen of a phone, and the page with all that it
// loads is small.
async function phone(page, where, base) {
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.setCacheDisabled", { cacheDisabled: true });
  const sizes = [];
  let late; // the script that comes seconds after the page, which on a slow machine is before the network is idle
  client.on("Network.requestWillBeSent", (e) => { if (e.request.url.includes("/static/ring-")) late = e.requestId; });
  client.on("Network.loadingFinished", (e) => { if (e.requestId !== late) sizes.push(e.encodedDataLength); });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(base + "/", { waitUntil: "networkidle" });
  await client.detach();
  for (const width of [390, 320]) {
    await page.setViewportSize({ width, height: 844 });
    const at = await page.evaluate(() => ({
      board: document.querySelector("#leaderboard")?.getBoundingClientRect().top, drawing: document.querySelector(".picture > svg").getBoundingClientRect().bottom,
    }));
    found.expect(`${where} ${width}`, "the drawing is on the first screen of a phone", at.drawing <= 844, at.drawing);
    found.expect(`${where} ${width}`, "the board begins within the second screen of a phone", width < 390 || at.board === undefined || at.board < 2 * 844, at.board);
  }
  // What is pointed at in the drawing has a name.
  if (await page.locator(".mark").count()) {
    await page.locator(".mark .dot").first().hover({ force: true });
    const tip = await page.$$eval(".mark:hover .tip", (all) => all.map((e) => getComputedStyle(e).opacity + e.textContent));
    found.expect(where, "a mark says whose it is", tip.length === 1 && /^1./.test(tip[0]), tip.join());
  }
  const bytes = sizes.reduce((a, b) => a + b, 0);
  found.expect(where, "home takes 6 requests and 44 KB at most", sizes.length <= 6 && bytes <= 44 << 10, `${sizes.join(" + ")} = ${bytes}`);
}

// low: on a phone no row of a leaderboard takes much, however long the names in it are, and it
// says what a row says elsewhere.
async function low(page, where) {
  for (const width of [390, 320]) {
    await page.setViewportSize({ width, height: 844 });
    const tall = await page.evaluate(() => {
      const rows = [...document.querySelectorAll(".lb tbody tr")];
      const name = rows[1].querySelector("th bdi"), host = rows[1].querySelector(".host > span");
      name.textContent = "W".repeat(80);
      host.textContent = "a-very-long-host.of-34-characters.";
      return [rows.length, Math.max(...rows.map((r) => r.getBoundingClientRect().height))];
    });
    found.expect(`${where} ${width}`, "rows are at most 110 pixels high on a phone", tall[1] <= 110, tall.join(" rows, "));
    const seen = await page.evaluate(() => document.querySelector(".lb tbody tr").innerText);
    found.expect(`${where} ${width}`, "a row has kind, details and last bid", /(Agent|MCP|Website)\s+(asleep\s+)?details/.test(seen) && /bid .+|no bids/.test(seen), seen);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    found.expect(`${where} ${width}`, "nothing is wider than a phone", wide <= 0, wide);
  }
}

// wordsOf is what there is to read, apart from the widget, which says more with
// script, from the buttons that copy, from the id of the request on an error page, and from
// the numbers, how long ago things were and the order of the members, which change while the test runs:
// an amount of whole dollars has no cents.
function wordsOf(page) {
  return page.evaluate(() => {
    const copy = document.body.cloneNode(true);
    copy.querySelectorAll("webring-online, .copy, .fine span").forEach((e) => e.remove());
    return [...copy.querySelectorAll("*")].flatMap((e) => [...e.childNodes]).filter((n) => n.nodeType === Node.TEXT_NODE)
      .map((n) => n.data.trim().replace(/[0-9]+(\.[0-9]{2})?/g, "0").replace(/just now|0 (seconds|min|h) ago/g, "ago")).sort().join(" ");
  });
}

// wordsWithScript is what there is to read on a page that is loaded with script now.
async function wordsWithScript(url, fill) {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(url, { waitUntil: "load" });
  if (fill) await submit(page, fill);
  const words = await wordsOf(page);
  await context.close();
  return words;
}

// difference is where two texts begin to differ, and empty where they do not.
function difference(a, b) {
  if (a === b) return "";
  let at = 0;
  while (a[at] === b[at]) at++;
  const from = Math.max(0, at - 40);
  return `with script ${JSON.stringify(a.slice(from, at + 60))}, without ${JSON.stringify(b.slice(from, at + 60))}`;
}

// refreshed: what went stale on the screen becomes true again by itself. When the order of the members
// has changed since the page was loaded, the page says so instead, and is loaded again.
async function refreshed(page, where) {
  let became = "";
  for (let i = 0; i < 3 && became !== "true"; i++) {
    if (i > 0) await page.reload();
    const stale = await page.evaluate(() => {
      const cell = document.querySelector("[data-live]");
      if (!cell) return false;
      cell.textContent = "stale";
      document.dispatchEvent(new Event("visibilitychange"));
      return true;
    });
    if (!stale) return;
    const said = await page.waitForFunction(() => document.querySelector("[data-live]").textContent !== "stale" ? "true" : document.querySelector("[data-notice]")?.textContent).catch(() => null);
    became = (await said?.jsonValue()) ?? "nothing";
  }
  found.expect(where, "numbers are refreshed", became === "true", became);
}

// lively: a page draws a ring that it is told of as the server has drawn it, and then what changes.
async function lively(page, where) {
  const live = await page.evaluate(() => String(new URL("../ring/live", new URL(document.querySelector(".picture").dataset.script, location))));
  const whole = await page.evaluate(async (live) => {
    const reader = (await fetch(live)).body.getReader();
    for (let text = ""; ; text += new TextDecoder().decode((await reader.read()).value)) {
      const first = text.match(/data: (.*)\n\n/);
      if (!first) continue;
      await reader.cancel();
      return JSON.parse(first[1]);
    }
  }, live);
  const rays = () => page.$$eval(".picture > svg .ray:not(.pale), circle.numeral", (all) =>
    all.flatMap((e) => (e.tagName === "circle" ? [`${e.getAttribute("cx")} ${e.getAttribute("cy")}`] : e.getAttribute("d").match(/M[^M]+/g) ?? [])).map((d) => d.match(/[\d.-]+/g).map(Number).join(" ")).sort().join("\n"));
  const newcomer = { slug: "newcomer", name: "New & Comer", host: "newcomer.example", kind: "mcp", position: whole.members + 1, paid: 10_000_000, counts: 10_000_000 };
  const events = [{ ...whole, seq: whole.seq + 1 }, { seq: whole.seq + 2, members: whole.members + 1, first: ["newcomer", ...whole.first].slice(0, 3), marks: [newcomer] }];
  let told = 1, asked = 0;
  await page.route(live, (r) => asked++ === 0 ? r.fulfill({ status: 503 }) : r.fulfill({ headers: { "Content-Type": "text/event-stream" }, body: "retry: 100\n\n" + events.slice(0, told).map((e) => `data: ${JSON.stringify(e)}\n\n`).join("") }));
  await page.clock.install();
  await page.goto(page.url());
  const drawn = await rays();
  const refused = page.waitForResponse(live);
  await page.clock.fastForward(4000); // the page loads the script late
  await refused;
  for (let turns = 0; asked < 2 && turns < 5; turns++) {
    await page.waitForTimeout(200);
    await page.clock.fastForward(41_000);
  }
  found.expect(where, "a page that was refused its stream asks for it again", asked > 1, `${asked}`);
  await page.waitForFunction(() => document.querySelector(".mark[href^=http]") || !document.querySelector(".mark"));
  const same = await rays();
  found.expect(where, "the script draws the ring as the server does", same === drawn, `${drawn}\n\n${same}`);
  told = 2;
  const grown = await page.waitForFunction(() => /^New & Comer joined/.test(document.querySelector(".lately").textContent) && document.querySelector(".mark[href$='/newcomer'] .ray:not(.pale)").getAttribute("d")).then(() => true, () => false);
  found.expect(where, "a join grows a ray", grown && await rays() !== same, await page.textContent(".lately"));
  await page.unroute(live);
}

async function submit(page, fill) {
  await page.$$eval("form.draft details", (all) => all.forEach((e) => (e.open = true)));
  // The amount can be typed when it was chosen to be another one than those offered.
  if (fill.bid) await page.check("#opening-own", { force: true });
  for (const [field, value] of Object.entries(fill)) {
    if (field === "kind") await page.check(`#kind-${value}`);
    else if (field === "opening") await page.check(`#opening-${value}`, { force: true });
    else await page.fill(`#${field}`, value);
  }
  const [response] = await Promise.all([page.waitForNavigation(), page.click("form[method=post] button")]);
  return response;
}

// Everything that can be pointed at can be reached with Tab, in the order of
// the page, is on the screen then, and shows that it is.
async function keyboard(page, where) {
  // A widget exchanges its links when it comes near the window and has its document.
  for (const widget of await page.locator("webring-online").all()) {
    await widget.scrollIntoViewIfNeeded();
    await widget.evaluate(async (e) => {
      for (const end = Date.now() + 20_000; e.shadowRoot?.querySelector("slot:not([hidden])") && Date.now() < end;) await new Promise((done) => setTimeout(done, 20));
    });
  }
  const expected = await page.evaluate(() => {
    const able = [...document.querySelectorAll("a[href], button, input, select, summary, textarea, [tabindex]")].filter((e) =>
      e.tabIndex >= 0 && e.checkVisibility() && !(e.type === "radio" && e !== (document.querySelector(`input[name="${e.name}"]:checked`) ?? document.querySelector(`input[name="${e.name}"]`))));
    able.forEach((e, i) => (e.stop = i));
    document.body.tabIndex = -1; // what an address leads to had the focus
    document.body.focus();
    document.body.removeAttribute("tabindex");
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
