// Puts the widget on pages of another origin, with a strict policy, in every
// situation that a page may be in, and prints what is wrong as JSON. The one
// argument is JSON: { chromium, base, from, names: { prev, next }, shots? }.
import { createServer } from "node:http";
import { Findings, launch, several, shifts, violations, watch } from "./chromium.mjs";

const plan = JSON.parse(process.argv[2]);
const { base, from } = plan;
const found = new Findings();

const links = (query, at = base) =>
  `<a href="${at}/prev${query}">Previous</a> <a href="${at}/random${query}">Random</a> <a href="${at}/next${query}">Next</a>`;
const script = `<script src="${base}/widget.js" async></script>`;
const mine = `?from=${from}`;
// Nobody listens there: the port was this machine's for a moment.
const closed = await new Promise((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(`http://127.0.0.1:${port}`)); });
});

// Each page: what it holds, and what is to be seen on it. "named" says that the
// neighbours' names are shown, "widgets" how many there are.
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
  "twice, and the script twice": { body: `<webring-online from="${from}"></webring-online>${script}<webring-online from="${from}" theme="dark" level="2">${links(mine)}</webring-online>${script}`, named: true, widgets: 2 },
  "added late": { body: script, late: true, named: true },
  "a policy without connect-src": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, policy: `default-src 'self'; script-src 'self' ${base}`, refused: true },
  "in a narrow column": { body: `<webring-online from="${from}">${links(mine)}</webring-online>${script}`, named: true, width: 280 },
  "a heading, and a theme": { body: `<h1>Host</h1><webring-online from="${from}" level="2" theme="dark"></webring-online>${script}`, named: true },
};

const policy = `default-src 'self'; script-src 'self' ${base} ${closed}; connect-src 'self' ${base} ${closed}`;
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  if (url.pathname === "/still.css") {
    response.writeHead(200, { "Content-Type": "text/css" });
    return response.end("webring-online { display: block; min-block-size: 4rem } :root { color-scheme: light dark; background: Canvas; color: CanvasText } body { background: Canvas }");
  }
  const c = cases[url.searchParams.get("case")];
  if (!c) { response.writeHead(204); return response.end(); }
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": c.policy ?? policy });
  response.end(`<!doctype html><html lang="en"><head><title>Host</title><meta name="viewport" content="width=device-width"><link rel="icon" href="/icon"><link rel="stylesheet" href="/still.css"></head>
<body><main><p>A member's own page.</p>${c.body}<p>Words after it.</p></main></body></html>`);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const host = `http://127.0.0.1:${server.address().port}`;

const browser = await launch(plan.chromium);
await several(Object.entries(cases).flatMap(([name, c]) => ["light", "dark"].map((scheme) => [name, c, scheme])), visit);
await browser.close();
server.close();
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));

// visit looks at one page in one scheme.
async function visit([name, c, scheme]) {
  const where = `${name}, ${scheme}`;
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
  const count = c.widgets ?? 1;
  if (c.named)
    await page.waitForFunction((n) => [...document.querySelectorAll("webring-online")].filter((e) => e.shadowRoot?.textContent.includes("Next: ")).length === n, count).catch(() => {});
  else if (c.javaScriptEnabled !== false) await page.waitForLoadState("networkidle");
  const widgets = await page.evaluate(look);
  found.expect(where, "the widgets are there", widgets.length === count, widgets.length);
  for (const w of widgets) {
    const shown = w.links.filter((l) => l.visible);
    for (const to of ["prev", "random", "next"]) {
      const link = shown.find((l) => l.href === (c.at ?? base) + "/" + to + (c.query ?? mine));
      // Some words of a neighbour's name are to be seen wherever the widget stands.
      found.expect(where, `${to} has room`, !c.width || !link || to === "random" || link.width >= c.width / 3, JSON.stringify(link));
      found.expect(where, `a link to ${to} that works`, link && link.height >= (w.upgraded ? 24 : 1), JSON.stringify(w));
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
  }
  const said = seen.said.filter((s) => !(c.down && /ERR_CONNECTION_REFUSED/.test(s)) && !(c.refused && /Content Security Policy/.test(s)));
  found.expect(where, "nothing is said in the console", said.length === 0, said.join("; "));
  found.expect(where, "nothing is asked for elsewhere", seen.elsewhere.length === 0, seen.elsewhere.join("; "));
  const asked = seen.requests.filter((p) => p.startsWith("/api/"));
  found.expect(where, "one request for each widget", asked.length === (c.javaScriptEnabled === false || c.down && !c.at || c.refused ? 0 : count), asked.join(" "));
  found.expect(where, "no cookies", (await context.cookies()).length === 0);
  if (c.javaScriptEnabled !== false) {
    if (!c.late) {
      const shift = await shifts(page);
      found.expect(where, "nothing moves", shift <= 0.02, shift);
    }
    if (c.named || c.down) {
      const wrong = (await violations(page)).filter((v) => !/^(page-has-heading-one|region|landmark-unique)/.test(v));
      found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
    }
    if (plan.shots) await page.screenshot({ path: `${plan.shots}/widget-${name.replace(/\W+/g, "-")}-${scheme}.png` });
  }
  await context.close();
}

// look runs in the page: every widget with the links in and below it.
function look() {
  return [...document.querySelectorAll("webring-online")].map((e) => {
    const all = [...(e.shadowRoot?.querySelectorAll("a") ?? []), ...e.querySelectorAll("a")];
    return {
      upgraded: !!e.shadowRoot,
      strange: (e.shadowRoot?.querySelectorAll("img, script, b, iframe") ?? []).length,
      links: all.map((a) => {
        const box = a.getBoundingClientRect();
        return { href: a.href, text: a.textContent, visible: a.checkVisibility() && box.width > 0, width: box.width, height: box.height };
      }),
    };
  });
}
