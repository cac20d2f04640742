// Puts the widget on pages of another origin, with a strict policy, in every
// situation that a page may be in, and prints what is wrong as JSON. The one
// argument is JSON: { chromium or firefox, base, from, place, names: { prev, next }, whole?, shots? }.
import { createServer } from "node:http";
import { mkdirSync } from "node:fs";
import { Findings, launch, several, shifts, violations, watch } from "./chromium.mjs";
import { launchFirefox } from "./firefox.mjs";

const plan = JSON.parse(process.argv[2]);
const { base, from } = plan;
const engine = plan.firefox ? "firefox" : "chromium";
if (plan.shots) mkdirSync(plan.shots, { recursive: true });
const found = new Findings();

const links = (query, at = base) =>
  `<a href="${at}/prev${query}">Previous</a> <a href="${at}/random${query}">Random</a> <a href="${at}/next${query}">Next</a>`;
const script = `<script src="${base}/widget.js" async></script>`;
const mine = `?from=${from}`;
// Nothing listens there any more.
const closed = await new Promise((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(`http://127.0.0.1:${port}`)); });
});

// Each page: what it holds, and what is to be seen on it. "named" says that the
// neighbours' names are shown, "widgets" how many there are, "form" how the links are arranged:
// in one row, in one column, or in a row of words alone.
const cases = {
  "without children": { body: `<webring-online from="${from}"></webring-online>${script}`, named: true },
  "with children": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, named: true },
  "pinned, with its digest": { body: `<webring-online from="${from}">${links(mine)}</webring-online><script src="${base}${plan.pinned}" integrity="${plan.integrity}" crossorigin="anonymous" async></script>`, named: true },
  "unknown from": { body: `<webring-online from="no-such-member"></webring-online>${script}`, query: "" },
  "without from": { body: `<webring-online></webring-online>${script}`, query: "" },
  "service down": { body: `<webring-online api="${closed}" from="${from}">${links(mine, closed)}</webring-online>${script}`, at: closed, down: true },
  "service down, without children": { body: `<webring-online api="${closed}/" from="${from}"></webring-online>${script}`, at: closed, down: true },
  "not even the script": { body: `<webring-online from="${from}">${links(mine)}</webring-online><script src="${closed}/widget.js" async></script>`, down: true },
  "script off": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, javaScriptEnabled: false },
  "twice, and the script twice": { body: `<webring-online from="${from}"></webring-online>${script}<webring-online from="${from}" theme="dark" level="2">${links(mine)}</webring-online>${script}`, named: true, form: "row", widgets: 2 },
  "added late": { body: script, late: true, named: true },
  "a policy without connect-src": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, policy: `default-src 'self'; script-src 'self' ${base}`, refused: true },
  "in a narrow window": { body: `<div class="narrow"><webring-online from="${from}">${links(mine)}</webring-online></div>${script}`, named: true, form: "column", width: 280 },
  "in a narrow column": { body: `<div class="narrow"><webring-online from="${from}"></webring-online></div>${script}`, named: true, form: "column", width: 900 },
  "in a column as wide as it is": { body: `<div class="fitting"><webring-online from="${from}"></webring-online></div>${script}`, named: true, form: "column" },
  "from right to left": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, named: true, form: "row", dir: "rtl" },
  "from right to left, narrow": { body: `<div class="narrow"><webring-online from="${from}"></webring-online></div>${script}`, named: true, form: "column", dir: "rtl" },
  "compact": { body: `<webring-online compact from="${from}">${links(mine)}</webring-online>${script}`, named: true, form: "words" },
  "compact, from right to left": { body: `<webring-online compact from="${from}"></webring-online>${script}`, named: true, form: "words", dir: "rtl" },
  "compact, narrow": { body: `<div class="narrow"><webring-online compact from="${from}"></webring-online></div>${script}`, named: true },
  "on a dark page": { body: `<div class="night"><webring-online from="${from}"></webring-online></div>${script}`, named: true, form: "row", colors: ["rgb(230, 228, 220)", "rgba(0, 0, 0, 0)"] },
  "themed on a dark page": { body: `<div class="night"><webring-online theme="light" from="${from}"></webring-online></div>${script}`, named: true, form: "row", colors: ["rgb(33, 29, 22)", "rgb(255, 253, 248)"] },
  "as a module": { body: `<webring-online from="${from}"></webring-online><script type="module" src="${base}/widget.js"></script>`, named: true },
  "as a module, with children": { body: `<webring-online from="${from}">${links(mine)}</webring-online><script type="module" src="${base}${plan.pinned}"></script>`, named: true },
  "imported by a module": { body: `<webring-online from="${from}"></webring-online><script type="module" src="/static.js"></script>`, named: true },
  "imported when it is wanted": { body: `<webring-online from="${from}"></webring-online><script src="/dynamic.js"></script>`, named: true },
  "bundled, with children": { body: `<webring-online from="${from}">${links(mine)}</webring-online><script type="module" src="/bundle.js"></script>`, named: true },
  "bundled, children come later": { body: `<script src="/bundle.js"></script><webring-online from="${from}"><p>Words before them</p>${links(mine)}</webring-online>`, named: true },
  "bundled, with the ring's address": { body: `<webring-online from="${from}" api="${base}"></webring-online><script type="module" src="/assets/widget.js"></script>`, named: true },
  "bundled, with nothing of the ring's": { body: `<webring-online from="${from}"></webring-online><script type="module" src="/bundle.js"></script>`, nothing: true },
  "a copy of the page's own": { body: `<webring-online from="${from}"></webring-online><script src="/assets/widget.js"></script>`, nothing: true },
  "bundled, with links that are not the ring's": { body: `<webring-online from="${from}"><a href="/nextdoor">Next door</a></webring-online><script type="module" src="/bundle.js"></script>`, nothing: true },
  "in a root that the page declares": { body: `<webring-online from="${from}" theme="light"><template shadowrootmode="open"><p>Before</p></template></webring-online>${script}`, named: true, form: "row", colors: ["rgb(33, 29, 22)", "rgb(255, 253, 248)"] },
  "in a closed root that the page declares": { body: `<webring-online from="${from}"><template shadowrootmode="closed"><p>Before</p></template></webring-online>${script}`, closed: true },
  "in a root that is not its own": { body: `<webring-online from="${from}"></webring-online><script src="/attach.js"></script>${script}`, closed: true, unused: true },
  "moved into another document": { body: `<webring-online from="${from}"></webring-online>${script}`, moved: true },
  "in the colour of the page's links": { body: `<div class="linked"><webring-online join from="${from}">${links(mine)}</webring-online></div>${script}`, named: true, form: "row", linked: true },
  "a heading, and a theme": { body: `<h1>Host</h1><webring-online from="${from}" level="2" theme="dark"></webring-online>${script}`, named: true },
};

const widget = await (await fetch(`${base}/widget.js`)).text();
const policy = `default-src 'self'; script-src 'self' ${base} ${closed}; connect-src 'self' ${base} ${closed}`;
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  if (url.pathname === "/still.css") {
    response.writeHead(200, { "Content-Type": "text/css" });
    return response.end(`webring-online { display: block; min-block-size: 4.75rem } .narrow webring-online { min-block-size: 8.25rem } webring-online[compact] { min-block-size: 1.5rem }
:root { color-scheme: light dark; background: Canvas; color: CanvasText } body { background: Canvas }
.narrow { max-inline-size: 17rem } .fitting { display: inline-block } .linked a { color: light-dark(#b0316b, #ff9ac4) } .other .linked a { color: light-dark(#31506b, #9ac4ff) } .night { color-scheme: light; color: #e6e4dc; background: #14161b; padding: 1rem }`);
  }
  const own = { "/static.js": `import "${base}/widget.js"`, "/dynamic.js": `import("${base}/widget.js")`, "/bundle.js": widget, "/assets/widget.js": widget, "/attach.js": 'document.querySelector("webring-online").attachShadow({ mode: "closed" })' }[url.pathname];
  if (own) {
    response.writeHead(200, { "Content-Type": "text/javascript" });
    return response.end(own);
  }
  const c = cases[url.searchParams.get("case")];
  if (!c) { response.writeHead(204); return response.end(); }
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": c.policy ?? policy });
  response.end(`<!doctype html><html lang="en" dir="${c.dir ?? "ltr"}"><head><title>Host</title><meta name="viewport" content="width=device-width"><link rel="icon" href="/icon"><link rel="stylesheet" href="/still.css"></head>
<body><main><p>A member's own page.</p>${c.body}<p>Words after it.</p></main></body></html>`);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const host = `http://127.0.0.1:${server.address().port}`;

const schemes = ["light", "dark"];
// Each page is seen in one of the schemes, and in Chromium in both where the case is about
// colours. In Firefox script cannot be switched off, and unless whole is true it sees one page of
// each kind: engines differ in how they load, attach, lay out and refuse, not in what a member is.
const kinds = ["without children", "with children", "service down", "not even the script", "a policy without connect-src", "in a narrow column", "from right to left", "compact",
  "themed on a dark page", "as a module", "bundled, children come later", "in a root that the page declares", "in a closed root that the page declares", "moved into another document", "in the colour of the page's links"];
const visits = Object.entries(cases).flatMap(([name, c], i) => engine === "chromium" && (plan.whole || c.colors) ? schemes.map((scheme) => [name, c, scheme])
  : engine !== "chromium" && (c.javaScriptEnabled === false || !plan.whole && !kinds.includes(name)) ? [] : [[name, c, schemes[(i + (engine === "chromium")) % 2]]]);
const browser = await (plan.firefox ? launchFirefox(plan.firefox) : launch(plan.chromium));
// Firefox loses a page that is opened while another is closed.
await several(visits, visit, plan.firefox ? 1 : 3);
await browser.close();
server.close();
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

// visit looks at one page in one scheme.
async function visit([name, c, scheme]) {
  const where = `${engine}, ${name}, ${scheme}`;
  const context = await browser.newContext({ viewport: { width: c.width ?? 640, height: 600 }, colorScheme: scheme, javaScriptEnabled: c.javaScriptEnabled ?? true });
  const page = await context.newPage();
  const seen = watch(page, [host, base, closed]);
  await page.goto(`${host}/?case=${encodeURIComponent(name)}`, { waitUntil: "load" });
  if (c.late)
    await page.evaluate(async (slug) => {
      await customElements.whenDefined("webring-online");
      const e = document.createElement("webring-online");
      e.setAttribute("from", slug);
      document.querySelector("main").append(e);
    }, from);
  if (c.moved || c.closed || c.nothing) {
    await page.evaluate(() => customElements.whenDefined("webring-online").then(() => 0));
    if (c.moved) {
      const style = await page.evaluate(async () => {
        const e = document.querySelector("webring-online"), frame = document.createElement("iframe");
        document.querySelector("main").append(frame);
        frame.contentDocument.body.append(e);
        return frame.contentWindow.getComputedStyle(e.shadowRoot.querySelector("nav")).display;
      });
      found.expect(where, "it is styled there", style === "grid", style);
    }
    const requests = () => seen.requests.filter((p) => p.startsWith("/api/")).length;
    if (c.closed && !c.unused) await until(requests);
    await page.waitForLoadState("networkidle");
    found.expect(where, "as many requests as it takes", c.moved || requests() === (c.closed && !c.unused ? 1 : 0), requests());
    found.expect(where, "nothing is shown that is wrong", !c.nothing || (await page.evaluate(look)).every((w) => w.links.every((l) => l.text === "Next door")));
    found.expect(where, "nothing is said in the console", seen.said.length === 0, seen.said.join("; "));
    found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
    await context.close();
    return;
  }
  const count = c.widgets ?? 1;
  if (c.named)
    await until(() => page.evaluate((n) => [...document.querySelectorAll("webring-online")].filter((e) => e.shadowRoot?.textContent.includes("Next: ")).length === n, count));
  else if (c.query !== undefined)
    await until(async () => (await page.evaluate(look)).every((w) => w.links.some((l) => l.href === base + "/next" + c.query)));
  else if (c.javaScriptEnabled !== false) {
    if (c.at) await until(() => seen.requests.some((p) => p.startsWith("/api/")));
    await page.waitForLoadState("networkidle");
  }
  const widgets = await page.evaluate(look);
  found.expect(where, "the widgets are there", widgets.length === count, widgets.length);
  for (const w of widgets) {
    const shown = w.links.filter((l) => l.visible);
    for (const to of ["prev", "random", "next"]) {
      const link = shown.find((l) => l.href === (c.at ?? base) + "/" + to + (c.query ?? mine));
      // Some of a neighbour's name is visible at every width.
      found.expect(where, `${to} has room`, c.form !== "column" || !link || to === "random" || link.width >= 90, JSON.stringify(link));
      found.expect(where, `a link to ${to} that works`, link && link.height >= (w.upgraded ? 24 : 1) && (!w.upgraded || link.width >= 24), JSON.stringify(w));
      if (link && !c.down) {
        const answer = await fetch(link.href, { redirect: "manual" });
        found.expect(where, `${to} leads on`, answer.status === 302, answer.status);
      }
      if (link && c.named && to !== "random") {
        const want = (to === "next" ? "Next: " : "Previous: ") + plan.names[to];
        found.expect(where, `${to} says where it leads`, link.text === want, `${link.text} | ${want}`);
      }
    }
    found.expect(where, "no link is there twice", shown.filter((l) => /\/(prev|random|next)(\?|$)/.test(l.href)).length === 3, JSON.stringify(shown));
    found.expect(where, "words of members are no markup", w.strange === 0, w.strange);
    found.expect(where, "nothing lies over anything else", w.over.length === 0, w.over.join("; "));
    if (c.named) found.expect(where, "it says where the member stands", w.place === plan.place, w.place);
    if (c.form) {
      const [first, middle, last] = ["prev", "random", "next"].map((to) => shown.find((l) => l.href.includes(`/${to}`)));
      const forward = (a, b) => (c.dir === "rtl" ? b.right <= a.left : a.right <= b.left);
      const stands = c.form === "column" ? first.bottom <= middle.top && middle.bottom <= last.top
        : forward(first, middle) && forward(middle, last) && Math.abs(first.top - last.top) < 2;
      found.expect(where, `the links stand in a ${c.form}`, stands, JSON.stringify(shown));
      if (c.form === "words") found.expect(where, "the compact form is of one line", w.height < 32, w.height);
    }
    found.expect(where, "a link to join if it is wanted", shown.filter((l) => l.href === base + "/join").length === (c.linked ? 1 : 0), JSON.stringify(shown));
    if (c.linked) {
      found.expect(where, "links have the colour of the page's links", w.tints[0] === w.tints[1] && w.tints[0] !== w.colors[0], w.tints.join());
      await page.evaluate(() => document.documentElement.classList.add("other"));
      await until(async () => { const [now] = await page.evaluate(look); return now.tints[0] === now.tints[1]; });
      const [now] = await page.evaluate(look);
      found.expect(where, "and follow it", now.tints[0] === now.tints[1] && now.tints[0] !== w.tints[0], now.tints.join());
    }
    if (c.colors) found.expect(where, "the colours are those of the page, or of the theme", w.colors.join() === c.colors.join(), w.colors.join());
  }
  const names = widgets.map((w) => w.label);
  found.expect(where, "no two landmarks have one name", new Set(names).size === names.length, names.join("; "));
  const said = seen.said.filter((s) => !(c.down && /ERR_CONNECTION_REFUSED|CORS request did not succeed/.test(s)) && !(c.refused && /Content.Security.Policy/.test(s)));
  found.expect(where, "nothing is said in the console", said.length === 0, said.join("; "));
  found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
  const asked = seen.requests.filter((p) => p.startsWith("/api/"));
  found.expect(where, "one request for each widget", asked.length === (c.javaScriptEnabled === false || c.down && !c.at || c.refused ? 0 : count), asked.join(" "));
  found.expect(where, "no cookies", (await context.cookies()).length === 0);
  if (c.javaScriptEnabled !== false) {
    if (!c.late && engine === "chromium") {
      const shift = await shifts(page);
      found.expect(where, "nothing moves", shift <= 0.02, shift);
    }
    // What loads or imports the script changes nothing of what axe reads.
    if (engine === "chromium" && (c.down || (plan.whole ? c.named : c.form || c.linked || c.widgets))) {
      const wrong = (await violations(page)).filter((v) => !/^(page-has-heading-one|region)/.test(v));
      found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
    }
    if (plan.shots) await page.screenshot({ path: `${plan.shots}/widget-${engine}-${name.replace(/\W+/g, "-")}-${scheme}.png` });
  }
  await context.close();
}

// until waits for a condition, which may never come: what is missing is found afterwards.
async function until(holds) {
  for (const end = Date.now() + 20_000; Date.now() < end && !(await holds()); ) await new Promise((done) => setTimeout(done, 50));
}

// look runs in the page: every widget with the links in and below it.
function look() {
  return [...document.querySelectorAll("webring-online")].map((e) => {
    const inside = (selector) => [...(e.shadowRoot?.querySelectorAll(selector) ?? [])];
    const all = [...inside("a"), ...e.querySelectorAll("a")];
    const seen = (x) => x.checkVisibility() && x.getBoundingClientRect().width > 0;
    const solid = [...all, ...inside("[part=mark], [part=place]")].filter(seen).map((x) => [x.textContent, x.getBoundingClientRect()]);
    const whole = e.getBoundingClientRect(), over = [];
    solid.forEach(([name, a], i) => {
      if (a.left < whole.left - 1 || a.right > whole.right + 1) over.push(`${name} stands out`);
      for (const [other, b] of solid.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) over.push(`${name} over ${other}`);
    });
    const nav = inside("nav")[0], style = nav && getComputedStyle(nav);
    return {
      upgraded: !!e.shadowRoot,
      over,
      height: whole.height,
      label: nav?.ariaLabel ?? "",
      place: inside("[part=place]")[0]?.textContent,
      colors: style ? [style.color, style.backgroundColor] : [],
      tints: [inside("[part~=prev]")[0], e.querySelector("a")].filter(Boolean).map((x) => getComputedStyle(x).color),
      strange: inside("img, script, b, iframe").length,
      links: all.map((a) => {
        const { left, right, top, bottom, width, height } = a.getBoundingClientRect();
        return { href: a.href, text: a.textContent, visible: seen(a), left, right, top, bottom, width, height };
      }),
    };
  });
}
