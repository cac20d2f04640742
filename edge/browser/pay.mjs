// Pays and proves in a browser as a person does, with a wallet that is a real signer: its
// provider is announced to the pages (EIP-6963), and answers come from this process. The one
// argument is JSON: { chromium, firefox?, base, edge, owner, payer, poor, smart, whole?, shots? }: owner,
// payer and poor are private keys, and smart is an account for which the payer's key signs. It prints lines of JSON: { do } asks
// whoever started it for something, such as to end the origin or to note how much a person has to do, and waits for a line;
// the last one says what is wrong, as the other programs do.
import { createInterface } from "node:readline";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";
import { privateKeyToAccount } from "viem/accounts";
import { Findings } from "./chromium.mjs";

const plan = JSON.parse(process.argv[2]);
const found = new Findings();
if (plan.shots) mkdirSync(plan.shots, { recursive: true });

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function wants(what) {
  console.log(JSON.stringify({ do: what }));
  return (await answers.next()).value;
}

const launch = (browser, executablePath) => puppeteer.launch({
  browser, executablePath, headless: true, timeout: 60_000, protocolTimeout: 180_000,
  args: browser === "chrome" ? ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] : [],
});

const fail = (code, message) => { throw { code, message }; };

// Wallet is what stands behind a provider: for the account of a key, or for a smart account, on
// the ring's network or on another one. behave changes how it answers one method.
class Wallet {
  signed = 0;
  asked = [];
  confirmed = 0; // how often its owner had to agree
  sites = new Set(); // with which it is connected
  behave = {};
  constructor(key, { smart, chain = "0x2105" } = {}) {
    const account = privateKeyToAccount(key);
    Object.assign(this, { account: smart ? { ...account, address: smart } : account, chain, knows: new Set([chain]) });
  }
  async request({ method, params = [] }, site) {
    this.asked.push(method);
    if ({ eth_requestAccounts: !this.sites.has(site), wallet_switchEthereumChain: this.knows.has(params[0]?.chainId), wallet_addEthereumChain: true, eth_signTypedData_v4: true }[method]) this.confirmed++;
    if (method === "eth_requestAccounts") this.sites.add(site);
    if (this.behave[method]) return this.behave[method](params);
    switch (method) {
      case "eth_requestAccounts": return [this.account.address.toLowerCase()];
      case "eth_chainId": return this.chain;
      case "wallet_switchEthereumChain":
        if (!this.knows.has(params[0].chainId)) fail(4902, "Unrecognized chain ID");
        this.chain = params[0].chainId;
        return null;
      case "wallet_addEthereumChain":
        if (!params[0].rpcUrls?.every((u) => u.startsWith("https://")) || params[0].nativeCurrency?.decimals !== 18) fail(-32602, "not a chain");
        this.knows.add(params[0].chainId);
        return null;
      case "eth_signTypedData_v4": return this.sign(params);
    }
    fail(4200, "unsupported");
  }
  // hold has signatures wait until what it gives is called.
  hold() {
    let release;
    const released = new Promise((go) => (release = go));
    this.behave = { eth_signTypedData_v4: async (params) => { await released; return this.sign(params); } };
    return () => { this.behave = {}; release(); };
  }
  sign([account, text]) {
    const { types: { EIP712Domain, ...types }, domain, primaryType, message } = JSON.parse(text);
    if (account.toLowerCase() !== this.account.address.toLowerCase()) fail(4100, "not this account");
    if (Number(this.chain) !== Number(domain.chainId)) fail(-32602, "the active chain is another one"); // as wallets do
    if (EIP712Domain.length !== Object.keys(domain).length) fail(-32602, "the domain is not of its type");
    this.signed++;
    return this.account.signTypedData({ types, domain, primaryType, message });
  }
}

// visit opens a page with a wallet, which announces itself; or two announce themselves late; or
// it is where wallets were before.
async function visit(browser, wallet, url, announced = true) {
  const page = await browser.newPage();
  page.said = [];
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && page.said.push(m.text()));
  page.on("pageerror", (e) => page.said.push(String(e)));
  page.sent = [];
  page.on("request", (r) => page.sent.push([r.method(), r.url(), r.headers().authorization ?? ""]));
  if (wallet) {
    await page.exposeFunction("answer", async (text) => {
      try { return JSON.stringify({ result: await wallet.request(JSON.parse(text), new URL(page.url()).origin) }); } catch (e) { return JSON.stringify({ error: { code: e.code, message: String(e.message) } }); }
    });
    await page.evaluateOnNewDocument((announced) => {
      const provider = { async request(r) {
        const a = JSON.parse(await window.answer(JSON.stringify(r)));
        if (a.error) throw Object.assign(new Error(a.error.message), { code: a.error.code });
        return a.result;
      } };
      if (!announced) return (window.ethereum = provider);
      const detail = (name) => Object.freeze({ info: Object.freeze({ uuid: "350670db-19fa-4704-a166-e52e178b59d2" + name, name, icon: "data:image/svg+xml,<svg/>", rdns: "test.purse" }), provider });
      const announce = (name) => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: detail(name) }));
      if (announced === "late") return (window.announceTwo = () => ["One", "Two"].forEach(announce));
      const purse = () => announce("<b onclick=alert(1)>Purse</b>");
      addEventListener("eip6963:requestProvider", purse);
      purse();
    }, announced);
  }
  await page.goto(url, { waitUntil: "load" });
  page.wallet = wallet;
  counts(page);
  return page;
}

// counts begins to count what a person does on a page: what is pressed, what is typed, and what
// the wallet asks. counted says how much it was, and how many seconds the page and the ring took.
function counts(page) {
  Object.assign(page, { actions: 0, unseen: [], before: page.wallet?.confirmed ?? 0, begun: performance.now() });
}
async function counted(page, who, flow, most) {
  const actions = page.actions + (page.wallet?.confirmed ?? 0) - page.before, seconds = (performance.now() - page.begun) / 1000;
  found.expect(who, `${flow}: at most ${most} actions, with what is seen`, actions <= most && (actions > 0 || !page.wallet) && !page.unseen.length, `${actions} ${page.unseen} ${page.wallet?.asked.slice(-6)}`);
  await wants(`note ${who} | ${flow} | ${actions} actions | ${seconds.toFixed(1)} s`);
}
async function acts(page, selector, value) {
  page.actions++;
  if (!(await page.$eval(selector, (e, value) => {
    const seen = e.checkVisibility({ visibilityProperty: true });
    if (value === null) e.click();
    else {
      e.value = value;
      e.dispatchEvent(new Event("input", { bubbles: true }));
    }
    return seen;
  }, value))) page.unseen.push(selector);
}
const press = (page, selector) => acts(page, selector, null);
const type = acts;
const words = (page, selector) => page.$eval(selector, (e) => e.innerText || e.textContent).catch(() => "");

// says waits until the line of a part of the page holds words.
async function says(page, part, what, pattern) {
  const holds = await page.waitForFunction((part, source) => new RegExp(source, "i").test(document.querySelector(part)?.querySelector(".said")?.textContent ?? ""), { timeout: 60_000, polling: 100 }, part, pattern.source).then(() => true, () => false);
  found.expect(page.url(), what, holds, (await words(page, part)) + " | " + page.said.join("; "));
  return holds;
}

// button presses the button of a step once it is there. "Sign in" names a wallet, too.
async function button(page, part, label) {
  page.actions++;
  const there = await page.waitForFunction((part, label) => {
    const b = [...document.querySelectorAll(`${part} .step button`)].find((b) => b.textContent === label || (label === "Sign in" && b.textContent.startsWith(label)));
    b?.click();
    return !!b;
  }, { timeout: 30_000, polling: 100 }, part, label).then(() => true, () => false);
  found.expect(page.url(), `the button “${label}” is there`, there, await words(page, part));
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
async function accessible(page, where) {
  await page.$$eval("details", (all) => all.forEach((e) => (e.open = true)));
  await page.evaluate(axe + ";0");
  const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
    .then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(" | "))));
  found.expect(where, "axe finds nothing", wrong.length === 0, wrong.join("\n"));
}

const stored = (page) => page.evaluate(() => Object.keys(localStorage));
const paidFor = (page) => page.sent.filter(([, , credential]) => credential).map(([, , credential]) => credential);
const shoot = async (page, name) => { if (plan.shots) await page.screenshot({ path: `${plan.shots}/pay-${name}.png`, fullPage: true }); };

// between answers the requests of a page in place of the ring: with what f gives or promises for
// the method, the URL and whether there is a credential; "abort" for no answer, nothing to let it
// pass.
async function between(page, f) {
  if (!page.interception) {
    await page.setRequestInterception(true);
    page.on("request", async (r) => {
      const answer = await page.interception(r.method(), r.url(), !!r.headers().authorization);
      if (answer === "abort") r.abort();
      else if (answer) r.respond({ contentType: "application/json", ...answer });
      else r.continue();
    });
  }
  page.interception = f;
}
const problem = (status, code, more = {}) => ({ status, contentType: "application/problem+json", body: JSON.stringify({ status, code, title: code, detail: "Said in between.", ...more }) });

// shows says that a receipt has the member's card, words, button and snippet, each with a
// button that copies it, as the ring has them after the payment.
async function shows(page, part, where, base, slug) {
  await page.waitForSelector(`${part} .receipt .copy`, { timeout: 30_000 }).catch(() => {});
  const seen = await page.$eval(`${part} .receipt`, async (receipt) => {
    const images = [...receipt.querySelectorAll("img")];
    images.forEach((e) => (e.loading = "eager"));
    await Promise.all(images.map((e) => e.decode().catch(() => {})));
    // The card is that of now, not one that the browser had from before.
    const bytes = async (url, cache) => new Uint8Array(await (await fetch(url, { cache })).arrayBuffer()).join();
    const { origin, pathname } = new URL(images[0].src);
    const now = (await bytes(images[0].src, "force-cache")) === (await bytes(origin + pathname, "no-store"));
    return { now, images: images.map((e) => [e.src.split("?")[0], e.naturalWidth]), links: [...receipt.querySelectorAll("a")].map((e) => e.href),
      snippets: [...receipt.querySelectorAll(".copied > pre")].map((e) => e.textContent), ids: receipt.querySelectorAll("[id]").length };
  }).catch((e) => ({ now: false, images: [], links: [], snippets: [String(e)], ids: 0 }));
  const is = (words) => seen.snippets.some((s) => s.includes(words));
  found.expect(where, "the card and the button are shown", seen.images.length === 2 && seen.images[0][0] === `${base}/cards/${slug}.png` && seen.images[0][1] === 1200 &&
    seen.images[1][0] === `${base}/badge/${slug}.png` && seen.images[1][1] >= 88, seen.images);
  found.expect(where, "the card shows the payment", seen.now);
  found.expect(where, "words, button and snippet can be copied", seen.snippets.length === 3 && is("/members/" + slug) && is(`/badge/${slug}@2x.png 2x`) && is(`<webring-online from="${slug}">`), seen.snippets);
  found.expect(where, "links are right wherever the receipt stands", seen.links.includes(`${base}/embed?from=${slug}`) && seen.ids === 0, seen.links);
  // The page is the success: nothing that is seen pays again, or is a form or a command of payment.
  const live = await page.$$eval("button[type=submit], input, .pay-ways", (all) => all.filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 80)));
  found.expect(where, "nothing is left to pay with", live.length === 0, live.join(" "));
  const shown = await words(page, `${part} .receipt`);
  found.expect(where, "it says the rank, and leads to the page", /Rank\s*[0-9]+/i.test(shown) && seen.links.includes(`${base}/members/${slug}`), shown);
  return seen.snippets[0];
}

// alone looks at what a person without a wallet has, on a page that goes on in the part: ways
// that lead on, of which one is the address that a phone reads.
async function walletless(page, where, part, holds) {
  await page.waitForSelector("[data-wallet=no]");
  const seen = await page.evaluate((part) => {
    const visible = (e) => e?.checkVisibility({ visibilityProperty: true });
    const button = document.querySelector(`${part} button[type=submit]`), none = document.querySelector(`${part} .no-wallet`);
    return { button: visible(button), none: visible(none), ways: document.querySelectorAll(".pay-ways summary").length, open: document.querySelector(".way-phone")?.open, address: document.querySelector(".qr figcaption a")?.href };
  }, part);
  found.expect(where, "without a wallet the page says so, and leads to four other ways", !seen.button && seen.none && seen.ways === 4 && seen.open, seen);
  found.expect(where, "the address for a phone holds what was begun", seen.address?.includes(holds), seen.address);
  found.expect(where, "the address for a phone leads on", (await fetch(seen.address).catch(() => 0)).status === 200, seen.address);
  return seen.address;
}

// bid types an amount, reads what it does, and presses the button that pays.
async function bid(page, amount) {
  await type(page, "#pay-bid-amount", amount);
  await told(page, "#pay-bid");
  await press(page, "#pay-bid button[type=submit]");
}

// told waits until the page says what the typed amount does, or that it is none.
async function told(page, form) {
  const said = await page.waitForFunction((form) => {
    const e = document.querySelector(form), words = e.closest("section, dialog").querySelector("[data-buys=words]").textContent.trim();
    const text = e.elements.amount.value.replace(/[$\s]/g, "").replace(",", "."), told = Number(/^\$([\d.,]+)/.exec(words)?.[1].replaceAll(",", ""));
    return /^\d{1,7}(\.\d\d?)?$/.test(text) && Number(text) >= 1 ? told === Number(text) : words.startsWith("Type dollars");
  }, { timeout: 30_000, polling: 50 }, form).then(() => true, () => false);
  found.expect(page.url(), "the page says what a typed amount does", said, await words(page, "[data-buys=words]"));
}

// finished looks at a page on which a wish was answered.
async function finished(page, where) {
  found.expect(where, "nothing is kept after the answer", (await stored(page)).length === 0, await stored(page));
  found.expect(where, "one credential was sent", new Set(paidFor(page)).size <= 1, paidFor(page).length);
  const said = page.said.filter((s) => !/402|503|409|Failed to load resource|ERR_|NS_ERROR|NetworkError|Cross-Origin/i.test(s));
  found.expect(where, "nothing else is said in the console", said.length === 0, said.join("; "));
  found.expect(where, "names are text", !(await page.$("[onclick], img[src=x]")));
  await page.close();
}

// draft has an address checked on the join page, with a name or with the one that the site has, and
// presses the button that pays.
async function draft(page, url, name) {
  await type(page, "#url", url);
  if (name) await type(page, "#name", name);
  await Promise.all([page.waitForNavigation(), press(page, "form.draft button[type=submit]")]);
  await press(page, "#pay-join button[type=submit]");
}

// joined waits for the receipt of who has joined, and gives its slug.
async function joined(page, what) {
  await says(page, "#pay-join", what, /Welcome! .* is member \d+\./);
  const link = "#pay-join .receipt a[href*='embed?from=']";
  await page.waitForSelector(link, { timeout: 30_000 }).catch(() => {});
  return page.$eval(link, (a) => new URL(a.href).searchParams.get("from")).catch(() => "");
}

async function chromium() {
  const browser = await launch("chrome", plan.chromium);
  const owner = new Wallet(plan.owner), payer = new Wallet(plan.payer, { chain: "0x1" }), poor = new Wallet(plan.poor, { chain: "0x1" });

  // Join, from an address alone to the receipt.
  let page = await visit(browser, owner, plan.base + "/join");
  let release = owner.hold();
  await draft(page, "http://by-hand.strangers.test/");
  await page.waitForSelector("#pay-join .terms", { timeout: 60_000 });
  const offered = await page.$eval("#pay-join .step", (e) => e.textContent);
  found.expect("join", "it is said what is joined", ["You join as", "<img src=x onerror=alert(1)>", "http://by-hand.strangers.test/"].every((w) => offered.includes(w)), offered);
  release();
  const slug = await joined(page, "joining ends with the receipt");
  await counted(page, "Chromium, plain account", "join by an address alone", 6);
  found.expect("join", "one signature", owner.signed === 1, owner.signed);
  found.expect("join", "the receipt names the transaction", /0x[0-9a-f]{64}/.test(await words(page, "#pay-join .receipt")), await words(page, "#pay-join .receipt"));
  await shows(page, "#pay-join", "join", plan.base, slug);
  await shoot(page, "join");
  // The page is what it was: its address, mark and title, and where each of its links leads.
  const left = await page.evaluate(() => ({ title: document.title, icon: document.querySelector("link[rel=icon]").href, marked: document.querySelector("[aria-current]")?.textContent, links: [...new Set([...document.querySelectorAll("a[href], link[href]")].map((e) => e.href.split("#")[0]).filter((a) => a.startsWith(location.origin)))] }));
  found.expect("join", "title and marked entry are right", left.title.startsWith("Welcome! ") && left.marked === "Join", left);
  for (const link of [...left.links, left.icon]) found.expect("join", `the link to ${link} leads on`, (await fetch(link, { redirect: "manual" })).status < 400);
  found.expect("join", "the links are those of the site", ["/leaderboard", "/ring", `/members/${slug}`].every((path) => left.links.includes(plan.base + path)), left.links);
  await page.reload();
  const known = await words(page, "#result");
  found.expect("join", "a reload leads to the member, and offers nothing again", /already in the ring/.test(known) && !!(await page.$(`#result a[href="members/${slug}"]`)) && !(await page.$("#pay-join")), known);
  await finished(page, "join");
  const place = `${plan.base}/members/${slug}`;

  // A bid: first refused, then by a wallet that answers with nonsense, then signed.
  page = await visit(browser, payer, place);
  payer.behave.eth_signTypedData_v4 = () => fail(4001, "User rejected <b>");
  await bid(page, "2.00");
  await says(page, "#pay-bid", "a refused signature is said", /declined in the wallet.*Nothing was signed or charged/i);
  found.expect("bid", "the wallet was told of the network", payer.asked.includes("wallet_addEthereumChain") && payer.chain === "0x2105", payer.asked);
  for (const nonsense of ["0x", "<script>alert(1)</script>", { r: 1 }, "0x" + "11".repeat(64) + "0", ["0x" + "11".repeat(65)]]) {
    payer.behave.eth_signTypedData_v4 = () => nonsense;
    await bid(page, "2.00");
    await says(page, "#pay-bid", "a wrong signature is said", /did not return a signature/);
  }
  for (const nobody of [["<img src=x onerror=alert(1)>"], [[payer.account.address]], [], null, "0x" + "11".repeat(20)]) {
    payer.behave = { eth_requestAccounts: () => nobody };
    await bid(page, "2.00");
    await says(page, "#pay-bid", "a wallet without an account is said", /has no account/);
  }
  payer.behave = { eth_requestAccounts: () => new Promise(() => {}) };
  await bid(page, "2.00");
  await button(page, "#pay-bid", "Stop waiting for the wallet");
  await says(page, "#pay-bid", "a wallet that does not answer can be left", /Nothing was sent or charged/);
  payer.behave = {};
  for (const [amount, pattern] of [["0.10", /at least|minimum/], ["1e3", /amount/], ["99999999", /amount/], ["<b>", /amount/]]) {
    await page.$eval("#pay-bid", (form) => (form.noValidate = true));
    await bid(page, amount);
    await says(page, "#pay-bid", `an amount of ${amount} is refused in words`, pattern);
  }
  found.expect("refused", "nothing was sent or kept", paidFor(page).length === 0 && (await stored(page)).length === 0);
  release = payer.hold();
  await bid(page, "2.00");
  await page.waitForSelector("#pay-bid .terms");
  const shown = await page.$eval("#pay-bid .terms", (e) => e.textContent);
  found.expect("bid", "the terms are shown", ["You bid on", "<img src=x onerror=alert(1)>", "$2.00 in USD Coin", "Base (chain id 8453)", "0x", payer.account.address].every((w) => shown.includes(w)), shown);
  await accessible(page, "the terms of a bid");
  release();
  await says(page, "#pay-bid", "a bid ends with the receipt", /Your bid of \$2\.00 on .* counts\. It is at rank/);
  await shows(page, "#pay-bid", "bid", plan.base, slug);
  await shoot(page, "bid");
  await accessible(page, "a receipt");
  found.expect("bid", "one signature", payer.signed === 1, payer.signed);
  await finished(page, "bid");

  // Without a wallet: a bid with another amount, and a draft that goes on on a phone.
  page = await visit(browser, null, place);
  await type(page, "#pay-bid-amount", "7.5");
  await page.waitForFunction(() => document.querySelector("[data-buys=words]").textContent.startsWith("$7.50 "), { timeout: 30_000, polling: 100 }).catch(() => {});
  found.expect("no wallet", "the command and the prompt have the typed amount", (await page.$$eval(".pay-ways code", (all) => all.every((e) => !e.textContent.includes("amount") || e.textContent.includes('"7.50"')))));
  const retyped = (text) => page.$eval("#pay-bid-amount", (e, text) => { e.value = text; e.dispatchEvent(new Event("input", { bubbles: true })); }, text);
  const said = (begin) => page.waitForFunction((begin) => document.querySelector("[data-buys=words]").textContent.startsWith(begin) && document.querySelector(".pay-ways").hidden === begin.startsWith("Type"), { timeout: 30_000, polling: 100 }, begin).then(() => true, () => false);
  for (const [text, begin] of [["0.5", "Type dollars, such as 2.50. The least bid is $1."], ["1e2", "Type dollars"], ["7,5.", "Type dollars"], ["8,5", "$8.50 lifts"], [" $7.50 ", "$7.50 lifts"]]) {
    await retyped(text);
    found.expect("no wallet", `of “${text}” it is said what it does, and nothing else is offered`, await said(begin), await words(page, "[data-buys=words]"));
  }
  await walletless(page, "no wallet", "#pay-bid", "?amount=7.50#bid");
  await counted(page, "Chromium, no wallet", "bid, to the next step", 3);
  await accessible(page, "without a wallet");
  await finished(page, "no wallet");
  page = await visit(browser, null, plan.base + "/join");
  await type(page, "#url", "http://on-a-phone.strangers.test/");
  await press(page, "form.draft summary");
  await type(page, "#name", "\u540d <b>");
  await Promise.all([page.waitForNavigation(), press(page, "form.draft button[type=submit]")]);
  const brought = await walletless(page, "draft", "#pay-join", "/join?draft=");
  // Back from where the page leads, there are the draft and its offer again.
  const offer = () => page.evaluate(() => JSON.stringify([document.querySelector("#result .facts")?.textContent, document.querySelector("#pay-join")?.dataset.fixed, document.querySelector("#name")?.value, document.querySelector("#url")?.value]));
  const drafted = await offer();
  await Promise.all([page.waitForNavigation(), page.$eval("nav a[href=leaderboard]", (a) => a.click())]);
  for (const [what, go] of [["Back", () => page.goBack()], ["a reload", () => page.reload()]]) {
    await go().catch(() => {});
    const again = await offer().catch(String);
    found.expect("draft", `${what} gives back the draft and its offer`, again === drafted && drafted.includes("on-a-phone"), `${again} after ${drafted}`);
  }
  await counted(page, "Chromium, no wallet", "join by an address and a name, to the next step", 6);
  await page.close();
  page = await visit(browser, payer, "about:blank");
  const [form, text] = brought.split("=");
  const unknown = `${form}=${Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(text, "base64url")), description: "Typed elsewhere." })).toString("base64url")}`;
  await Promise.all([page.waitForFunction(() => document.querySelector("#pay-join button[type=submit]"), { timeout: 60_000, polling: 200 }).catch(() => {}), page.goto(unknown)]);
  found.expect("draft", "on the phone one tap is left, also for a draft that the ring does not know", (await page.$eval("#name", (e) => e.value).catch(() => "")) === "\u540d <b>" && !!(await page.$("#pay-join button[type=submit]")), page.url());
  const rename = (name) => page.$eval("#name", (e, name) => {
    e.value = name;
    e.dispatchEvent(new Event("input", { bubbles: true }));
    return [document.querySelector("#pay-join"), document.querySelector("button[form=draft]")].map((e) => e.checkVisibility()).join();
  }, name);
  const [renamed, restored] = [await rename("Other"), await rename("\u540d <b>")];
  found.expect("draft", "what is offered counts for the draft that was checked", renamed === "false,true" && restored === "true,false", `${renamed} ${restored}`);
  await page.$eval("#pay-join", (form) => (form.dataset.price = "9.99"));
  await press(page, "#pay-join button[type=submit]");
  await page.waitForSelector("#pay-join .terms");
  const dearer = await words(page, "#pay-join .step");
  found.expect("draft", "it is said that the price is another one than was shown", dearer.includes("showed $9.99"), dearer);
  await button(page, "#pay-join", "Cancel");
  await says(page, "#pay-join", "nothing is signed before a changed price is agreed to", /Nothing was signed or charged/);
  await finished(page, "draft");

  // An empty wallet, and one that stays on another network.
  page = await visit(browser, poor, place);
  poor.behave.wallet_switchEthereumChain = () => fail(4001, "no");
  await bid(page, "1.00");
  await says(page, "#pay-bid", "a refused network is said, and how to switch", /declined to switch.*chain id 8453/i);
  poor.behave.wallet_switchEthereumChain = () => null;
  await bid(page, "1.00");
  await says(page, "#pay-bid", "a network that stays is said", /stayed on another network/);
  poor.behave = {};
  await bid(page, "1.00");
  await says(page, "#pay-bid", "an empty wallet is said", /has too little/);
  await finished(page, "empty wallet");

  // The origin ends as the wallet signs; the tab is closed; another one goes on by itself.
  page = await visit(browser, payer, place);
  payer.behave.eth_signTypedData_v4 = async (params) => { await wants("kill"); return payer.sign(params); };
  await bid(page, "3.00");
  await says(page, "#pay-bid", "a lost origin is said, and that the signature is kept", /cannot be reached.*kept in this browser/i);
  found.expect("lost origin", "the wish is kept", (await stored(page)).length === 1);
  await page.close();
  payer.behave = {};
  await wants("launch");
  // Another page's script could have put these there; no such request is ever sent.
  page = await visit(browser, null, plan.base + "/about");
  await page.evaluate(() => {
    const wish = { method: "POST", path: "https://evil.example/", body: "", key: "k".repeat(20), what: "<img src=x onerror=alert(1)>", amount: "", credential: "Payment abc" };
    localStorage.setItem("webring-pay / POST https://evil.example/ ", JSON.stringify(wish));
    localStorage.setItem("webring-pay / POST api/bid {}", "{");
    localStorage.setItem("webring-pay / POST api/ring/../../x ", JSON.stringify({ ...wish, path: "api/ring/../../x" }));
  });
  await page.close();
  const signed = payer.signed;
  page = await visit(browser, payer, place);
  await says(page, ".resumed", "a page goes on with what was begun", /Your bid of \$3\.00 .* counts/);
  await shoot(page, "resumed");
  found.expect("return", "nothing was signed again", payer.signed === signed, payer.signed);
  found.expect("return", "only the ring was asked", page.sent.every(([, url]) => url.startsWith(plan.base + "/") && !url.includes("..")), page.sent.map(([, url]) => url));
  found.expect("return", "what is not answered alone is kept", (await stored(page)).length === 3, await stored(page));
  await page.close();

  // What lies there of others is left alone.
  page = await visit(browser, payer, place);
  found.expect("planted", "what cannot be read stays as it is", (await stored(page)).length === 3, await stored(page));
  await page.evaluate(() => localStorage.clear());

  // Two tabs want the same at once: the second one is told, until the first one has let go.
  const other = await visit(browser, payer, place);
  payer.hold();
  await bid(page, "5.00");
  await page.waitForSelector("#pay-bid .terms");
  await bid(other, "5");
  await says(other, "#pay-bid", "a second tab is told of the first", /Another tab, or another part/);
  await button(page, "#pay-bid", "Stop waiting for the wallet");
  await says(page, "#pay-bid", "the first tab lets go", /Nothing was sent or charged/);
  payer.behave = {};
  await finished(other, "second tab");
  // Given up without an answer: nothing else is signed, nor sent by other pages, until it is known.
  await between(page, (method, url, credential) => credential && "abort");
  await bid(page, "5.00");
  await says(page, "#pay-bid", "no answer is said", /cannot be reached/);
  await button(page, "#pay-bid", "Stop waiting");
  await says(page, "#pay-bid", "what is known of the money is said", /stopped waiting.*\$5\.00 can still be made until .*signs nothing else/);
  await shoot(page, "given-up");
  const silent = await visit(browser, payer, `${plan.base}/leaderboard`);
  await silent.waitForFunction(() => navigator.locks.query().then(({ held }) => !held.length)); // it has looked at the wish
  await bid(page, "5");
  await button(page, "#pay-bid", "Cancel");
  await says(page, "#pay-bid", "the wish stays blocked", /stopped waiting/);
  found.expect("given up", "another page does not send it", paidFor(silent).length === 0 && !(await silent.$(".resumed")));
  await silent.close();
  await between(page, () => null);
  await bid(page, "05.0");
  await button(page, "#pay-bid", "Send it again");
  await says(page, "#pay-bid", "what was given up can be gone on with", /Your bid of \$5\.00 .* counts/);
  found.expect("given up", "one signature", payer.signed === signed + 1, payer.signed);
  await finished(page, "given up");
  // Once its time is over, a page asks, and says what became of it.
  page = await visit(browser, payer, place);
  await between(page, (method, url, credential) => credential && "abort");
  await bid(page, "6.00");
  await button(page, "#pay-bid", "Stop waiting");
  await says(page, "#pay-bid", "it is given up", /stopped waiting/);
  await between(page, (method, url, credential) => (method === "HEAD" ? { status: 200, headers: { Date: new Date(Date.now() + 600_000).toUTCString() } } : credential && problem(402, "payment_expired", { reason: "expired" })));
  await page.reload({ waitUntil: "load" });
  await says(page, ".resumed", "a wish that was given up has its end", /You stopped waiting for this\. The offer expired.*Nothing was charged/);
  await finished(page, "given up for good");
  // An answer that comes after its wish was given up ends no wish that was signed since, in another tab.
  page = await visit(browser, payer, place);
  let answered;
  const late = new Promise((resolve) => (answered = resolve));
  await between(page, (method, url, credential) => credential && late);
  await bid(page, "7.00");
  await button(page, "#pay-bid", "Stop waiting");
  await says(page, "#pay-bid", "it is given up while its answer is open", /stopped waiting/);
  await page.evaluate(() => {
    const [name] = Object.keys(localStorage), wish = JSON.parse(localStorage[name]);
    const signed = JSON.parse(atob(wish.credential.slice(8).replaceAll("-", "+").replaceAll("_", "/")));
    wish.credential = "Payment " + btoa(JSON.stringify({ ...signed, later: true })).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    localStorage[name] = JSON.stringify(wish);
  });
  const arrives = page.waitForResponse((r) => !!r.request().headers().authorization);
  answered(problem(402, "payment_expired", { reason: "expired" }));
  await arrives;
  await page.evaluate(() => fetch("/api").then((r) => r.text()));
  found.expect("late answer", "what was signed since is kept", (await stored(page)).length === 1, await stored(page));
  await page.evaluate(() => localStorage.clear());
  await finished(page, "late answer");

  // Something in between spoils the answers, in a browser that keeps nothing: one credential.
  page = await visit(browser, payer, place);
  await page.evaluate(() => { Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }; });
  await between(page, (method) => method === "POST" && problem(402, "payment_required", { amount_usd: "500.00", offers: [{ wallet: { typed_data: { message: {} }, credential: { payload: {} }, chain: {} } }] }));
  await bid(page, "1.10");
  await says(page, "#pay-bid", "another amount than the chosen one is not signed", /asks for \$500\.00, not the \$1\.10/);
  await between(page, () => null);
  payer.behave.eth_signTypedData_v4 = () => fail(4100, "unauthorized");
  await bid(page, "1.10");
  await button(page, "#pay-bid", "Sign in");
  await says(page, "#pay-bid", "an account that is not shown any more is said", /does not sign with this account/);
  payer.behave = {};
  const spoiled = [
    [{ status: 200, body: '{"bid":{"member":' }, /incomplete or not from the ring/],
    [{ status: 200, body: "{}" }, /incomplete or not from the ring/],
    [{ status: 403, body: '{"code":"blocked"}' }, /incomplete or not from the ring/],
    [{ status: 302, headers: { Location: "https://evil.example/" } }, /leads somewhere else/],
    [problem(402, "payment_required"), /keep it open/],
  ];
  let at = -1;
  await between(page, (method, url, credential) => credential && spoiled[++at]?.[0]);
  await bid(page, "$1,10");
  await page.waitForSelector("#pay-bid .terms");
  const warned = await words(page, "#pay-bid .step");
  found.expect("spoiled", "a browser that keeps nothing is said", /stores nothing for this page/.test(warned), warned);
  await button(page, "#pay-bid", "Sign in");
  for (const [, pattern] of spoiled) {
    await says(page, "#pay-bid", "an answer that is not the ring's is said", pattern);
    await button(page, "#pay-bid", "Ask now");
  }
  await says(page, "#pay-bid", "the ring's answer counts", /Your bid of \$1\.10 .* counts/);
  found.expect("spoiled", "the same was sent until then", at === spoiled.length && page.sent.every(([, url]) => !url.includes("evil")), at);
  found.expect("spoiled", "one signature", payer.signed === signed + 4, payer.signed);
  await finished(page, "spoiled");

  // Two wallets that come late, and one that signs with another account than it has shown.
  page = await visit(browser, payer, place, "late");
  await type(page, "#pay-bid-amount", "1.05");
  await told(page, "#pay-bid");
  await page.evaluate(() => { document.querySelector("#pay-bid button[type=submit]").click(); setTimeout(window.announceTwo, 300); });
  payer.behave.eth_signTypedData_v4 = ([, text]) => Object.assign(poor, { chain: "0x2105" }).sign([poor.account.address, text]);
  await button(page, "#pay-bid", "Two");
  await says(page, "#pay-bid", "the signature of another account is said", /not this account's.*Nothing was charged/);
  payer.behave = {};
  await finished(page, "late wallets");

  // A smart account pays like any other. What it signs may have any length.
  const smart = new Wallet(plan.payer, { smart: plan.smart });
  page = await visit(browser, smart, place);
  smart.behave.eth_signTypedData_v4 = async (params) => (await smart.sign(params)) + "00".repeat(65);
  await bid(page, "1.20");
  await says(page, "#pay-bid", "what its code refuses is said", /not this account's.*Nothing was charged/);
  await finished(page, "smart account refuses");
  smart.behave = {};
  page = await visit(browser, smart, place);
  await bid(page, "1.20");
  await says(page, "#pay-bid", "a smart account pays", /Your bid of \$1\.20 .* counts/);
  await counted(page, "Chromium, smart account", "bid an amount of one's own", 3);
  await finished(page, "smart account");
  const before = payer.signed;

  // The origin ends once it has the payment, and the open page goes on.
  await wants("doom");
  page = await visit(browser, payer, place);
  await bid(page, "4.00");
  await says(page, "#pay-bid", "the origin is lost with the payment", /kept in this browser/);
  await wants("relaunch");
  await says(page, "#pay-bid", "the payment counts once it is back", /Your bid of \$4\.00 .* counts/);
  found.expect("in between", "one signature", payer.signed === before + 1, payer.signed);
  await finished(page, "in between");

  // The owner's changes. Another account is told before it signs.
  page = await visit(browser, payer, place);
  await type(page, "#pay-change-description", "Changed in a browser, <b>boldly</b>");
  await press(page, "#pay-change button[type=submit]");
  await says(page, "#pay-change", "another account than the owner's is told so", /The owner is 0x/);
  await finished(page, "another account");
  page = await visit(browser, owner, place);
  await press(page, "#pay-change button[type=submit]");
  await says(page, "#pay-change", "nothing changed is said", /changed nothing/);
  await type(page, "#pay-change-description", "Changed in a browser, <b>boldly</b>");
  // What would be signed for it moves money.
  await between(page, () => problem(402, "payment_required", { amount_usd: "0.00", offers: [{ wallet: { typed_data: { primaryType: "TransferWithAuthorization", message: { value: "9000000" } }, credential: { payload: {} }, chain: {} } }] }));
  await press(page, "#pay-change button[type=submit]");
  await says(page, "#pay-change", "a payment is not signed in place of a proof", /other than this page shows. Nothing was signed/);
  // Or it takes the member out of the ring.
  await between(page, () => problem(402, "payment_required", { amount_usd: "0.00", offers: [{ wallet: { typed_data: { primaryType: "Proof", message: { challengeId: `Remove ${slug} from the ring #AAAA` } }, credential: { payload: {} }, chain: {} } }] }));
  await press(page, "#pay-change button[type=submit]");
  await says(page, "#pay-change", "a departure is not signed in place of a change", /other than this page shows. Nothing was signed/);
  await between(page, () => null);
  await press(page, "#pay-change button[type=submit]");
  await page.waitForSelector("#pay-change .terms");
  const change = await page.$eval("#pay-change .terms", (e) => e.textContent);
  found.expect("change", "it is said what changes, and that nothing is paid", ["You change", "Its new description", "<b>boldly</b>", `Change ${slug}: description 'Changed in a browser b boldly /b' #`, "nothing"].every((w) => change.includes(w)) && !change.includes("webhook"), change);
  await button(page, "#pay-change", "Sign in");
  await says(page, "#pay-change", "the owner changes the member", /Changed\./);
  await shoot(page, "change");
  await page.reload({ waitUntil: "load" });
  found.expect("change", "the page shows it", (await words(page, "main")).includes("Changed in a browser, <b>boldly</b>"));
  // The webhook alone, and its end.
  const hook = () => page.evaluate(async (url) => (await (await fetch(url, { cache: "no-store" })).json()).webhook?.state ?? "none", `${plan.base}/api/ring/${slug}/events`);
  for (const [does, shown, state] of [[() => type(page, "#pay-change-webhook", "https://told.dev/at"), "https://told.dev/at", "on"], [() => page.$eval("#pay-change input[type=checkbox]", (e) => e.click()), "none", "none"]]) {
    page = await visit(browser, owner, place);
    await does();
    await press(page, "#pay-change button[type=submit]");
    await page.waitForSelector("#pay-change .terms");
    const asked = await page.$eval("#pay-change .terms", (e) => e.textContent);
    found.expect("webhook", "it alone is signed for", asked.includes("Its new webhook" + shown) && !asked.includes("Its new description"), asked);
    await button(page, "#pay-change", "Sign in");
    await says(page, "#pay-change", "the owner changes the webhook", /Changed\./);
    const now = await hook();
    found.expect("webhook", "the ring has it", now === state, now);
    await finished(page, "webhook");
  }

  // The site names another wallet as the owner: not before it shows the token.
  page = await visit(browser, payer, place);
  await press(page, "#pay-claim button[type=submit]");
  await button(page, "#pay-claim", "My site shows it");
  await says(page, "#pay-claim", "a site that does not show the token is told so", /does not show the token/);
  await press(page, "#pay-claim button[type=submit]");
  await page.waitForSelector("#pay-claim .terms code");
  await page.$eval("#pay-claim", (form) => (form.closest("details").open = true));
  await page.waitForSelector("#pay-claim .terms pre + .copy");
  await shoot(page, "claim");
  await wants("show " + (await page.$eval("#pay-claim .terms code", (e) => e.textContent)));
  await button(page, "#pay-claim", "My site shows it");
  await button(page, "#pay-claim", "Sign in");
  await says(page, "#pay-claim", "the site names the wallet as the owner", /is now the owner/);
  await finished(page, "claim");

  // Through an edge.
  page = await visit(browser, new Wallet(plan.payer), `${plan.edge}/members/${slug}?amount=1.50`);
  await press(page, "#pay-bid button[type=submit]");
  await says(page, "#pay-bid", "an edge takes a bid", /Your bid of \$1\.50 .* counts/);
  await counted(page, "Chromium, plain account, edge", "bid what a link offers, first visit", 3);
  await shows(page, "#pay-bid", "edge", plan.edge, slug);
  await finished(page, "edge");

  // On a row of the leaderboard, in its dialog.
  page = await visit(browser, payer, `${plan.base}/leaderboard`);
  await press(page, "a[data-bid]");
  await page.waitForSelector("dialog.pay-dialog[open]");
  found.expect("row", "the dialog begins with the row's member and amount",
    (await words(page, "[data-bid-name]")) === "<img src=x onerror=alert(1)>" && (await words(page, "[data-bid-host]")).startsWith("by-hand.") && (await page.$eval("#pay-row-amount", (e) => e.value)) === (await page.$eval("a[data-bid]", (e) => e.dataset.amount)));
  await page.$eval("#pay-row-amount", (e) => { e.value = "1.25"; e.dispatchEvent(new Event("input", { bubbles: true })); });
  await page.waitForSelector("dialog [data-buys] strong");
  await page.waitForFunction(() => document.querySelector("dialog [data-buys]").textContent.startsWith("$1.25 lifts it to"), { timeout: 30_000, polling: 100 }).catch(() => {});
  const buys = await words(page, "dialog [data-buys]");
  found.expect("row", "the dialog says what the typed amount does", /^\$1\.25 lifts it to \$[0-9.]+ in total and rank 1 of [0-9]+\. It counts in full for .*, until .*, then fades to \$0 by /.test(buys), buys);
  payer.hold();
  await press(page, "#pay-row button[type=submit]");
  await page.waitForSelector("#pay-row .terms");
  await accessible(page, "a dialog");
  await button(page, "#pay-row", "Stop waiting for the wallet");
  await says(page, "#pay-row", "a bid on a row can be left", /Nothing was sent or charged/);
  payer.behave = {};
  await press(page, "dialog form[method=dialog] button");
  counts(page);
  const amount = await row(page, "a[data-bid]", "a row takes a bid");
  await counted(page, "Chromium, plain account", "bid on a row of the leaderboard", 3);
  await shows(page, "#pay-row", "row", plan.base, slug);
  await shoot(page, "row");
  await accessible(page, "a receipt in a dialog");
  await press(page, "dialog form[method=dialog] button");
  await press(page, "a[data-bid]");
  await page.waitForSelector("dialog [data-buys] strong");
  const total = (words) => Number(/lifts it to \$([0-9.,]+) in/.exec(words)?.[1].replaceAll(",", "")), next = await words(page, "dialog [data-buys]");
  const wanted = total(buys) - 1.25 + amount + Number(await page.$eval("#pay-row-amount", (e) => e.value));
  found.expect("row", "the dialog begins anew with what was paid", Math.abs(total(next) - wanted) < 0.005, `${next} | ${wanted}`);
  await finished(page, "row");
  await moved(18.8 + amount, 9);
  await promised(browser, payer, slug);
  await moved(18.8 + amount, 9);
  if (plan.whole) {
    await flows(browser, "Chromium");
    await moved(18.8 + amount, 9);
  }
  if (!plan.firefox) await leaves(browser, await visit(browser, payer, place), "the owner leaves and returns");
  await browser.close();
  return { slug, bids: 18.8 + amount };
}

// row bids what a row of the leaderboard offers, and gives the amount.
async function row(page, link, what) {
  await press(page, link);
  await page.waitForSelector("dialog.pay-dialog[open]");
  await told(page, "#pay-row");
  const amount = Number(await page.$eval("#pay-row-amount", (e) => e.value));
  await press(page, "#pay-row button[type=submit]");
  await says(page, "#pay-row", what, new RegExp(`Your bid of \\$${amount.toFixed(2)} .* counts`));
  return amount;
}

// moved says how many dollars the ledger counts and the chain has moved, and in how many
// transactions, besides those of flows.
const flown = { dollars: 0, count: 0 };
const moved = (dollars, count) => wants(`count ${(dollars + flown.dollars).toFixed(2)} ${count + flown.count}`);

// promised looks at what becomes of a rank that a page shows while others bid: on a member's page, in
// the dialog of a row, and for a draft. Nothing is charged for a rank that is gone.
async function promised(browser, payer, slug) {
  const rival = async (amount, first) => {
    await wants(first ? `pay /api/register {"name":"Rival","url":"http://rival.strangers.test/","kind":"agent","bid":"${amount}"}` : `pay /api/bid {"member":"rival","amount":"${amount}"}`);
    flown.dollars += Number(amount) + (first ? 1 : 0);
    flown.count++;
  };
  const gone = (form, page) => says(page, form, "of a rank that is gone it is said what it takes now", /no longer gives rank 1.* Rank 1 takes \$[0-9.]+ .*now\. Nothing was charged\./);
  const rankOf = (page, part, rank) => page.waitForFunction((part, rank) => document.querySelector(part)?.querySelector("[data-buys=words]").textContent.includes(`rank ${rank} of`), { timeout: 30_000, polling: 50 }, part, rank).then(() => true, () => false);
  const onward = (page, form) => page.$eval(`${form} .step button`, (e) => e.textContent).catch(() => "");
  await rival("60.00", true);
  let page = await visit(browser, payer, `${plan.base}/members/${slug}`), signed = payer.signed;
  const again = () => page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  found.expect("rank", "the box is on", await page.$eval("#pay-bid [type=checkbox]", (e) => e.checked && e.parentElement.textContent.trim() === "Charge me only if I get this rank").catch(() => false));
  await type(page, "#pay-bid-amount", "75.00");
  await told(page, "#pay-bid");
  const ways = await page.$$eval(".pay-ways code", (all) => all.map((e) => e.textContent).filter((s) => s.includes("75.00")));
  found.expect("rank", "the command and the prompt ask for the rank", ways.length === 2 && ways.every((s) => s.includes('"only_if_rank":1')), ways);
  await rival("40.00");
  await press(page, "#pay-bid button[type=submit]");
  await gone("#pay-bid", page);
  found.expect("rank", "the wallet was not asked", payer.signed === signed, payer.signed);
  found.expect("rank", "the page shows the rank of now", await rankOf(page, "section", 2), await words(page, "[data-buys=words]"));
  await shoot(page, "rank-taken");
  // One press goes on, with the price that it names. While the wallet signs, the rank is lost again.
  const next = /^Bid \$([0-9.]+) for rank 1$/.exec(await onward(page, "#pay-bid"))?.[1];
  let release = payer.hold();
  await press(page, "#pay-bid .step button");
  await page.waitForSelector("#pay-bid .terms", { timeout: 30_000 }).catch(() => {});
  const terms = await words(page, "#pay-bid .terms");
  found.expect("rank", "the terms have the new price and the rank", Number(next) > 75 && terms.includes(`$${Number(next).toFixed(2)} in USD Coin`) && /rank 1 or better, or nothing is charged/i.test(terms), terms);
  await rival("25.00");
  release();
  await gone("#pay-bid", page);
  found.expect("rank", "one signature, and nothing kept", payer.signed === signed + 1 && (await stored(page)).length === 0, payer.signed);
  await finished(page, "rank");
  // An open page goes on saying what is true: the box above the button, too.
  page = await visit(browser, payer, `${plan.base}/members/${slug}`);
  await type(page, "#pay-bid-amount", "200.00");
  await told(page, "#pay-bid");
  const before = await rankOf(page, "section", 1);
  await rival("150.00");
  await again();
  found.expect("rank", "what an amount does is refreshed on an open page", before && await rankOf(page, "section", 2), await words(page, "[data-buys=words]"));
  // Pressed before the page says what the amount does, it asks first.
  await type(page, "#pay-bid-amount", "3.00");
  await press(page, "#pay-bid button[type=submit]");
  await page.waitForSelector("#pay-bid .terms", { timeout: 30_000 }).catch(() => {});
  const asked = await words(page, "#pay-bid .step");
  found.expect("rank", "a hasty press is asked about", /\$3\.00 gives rank 2\./.test(asked) && asked.includes("Rank 2 or better") && asked.includes("Sign in"), asked);
  await button(page, "#pay-bid", "Cancel");
  await says(page, "#pay-bid", "nothing is signed before that", /Nothing was signed or charged/);
  // Without the box any rank will do.
  await type(page, "#pay-bid-amount", "180.00");
  await told(page, "#pay-bid");
  await press(page, "#pay-bid [type=checkbox]");
  await press(page, "#pay-bid button[type=submit]");
  await button(page, "#pay-bid", "Sign in"); // it is $100 or more
  await says(page, "#pay-bid", "without the box a bid counts at any rank", /Your bid of \$180\.00 .* counts/);
  flown.dollars += 180;
  flown.count++;
  await finished(page, "any rank");

  page = await visit(browser, payer, `${plan.base}/leaderboard`);
  await page.reload({ waitUntil: "load" });
  await press(page, `a[data-bid="${slug}"]`);
  await told(page, "#pay-row");
  const shown = await rankOf(page, "dialog", 1);
  await rival("10.00");
  await press(page, "#pay-row button[type=submit]");
  await gone("#pay-row", page);
  found.expect("rank in a row", "the dialog shows the rank of now, and one press goes on", shown && /^Bid \$[0-9.]+ for rank 1$/.test(await onward(page, "#pay-row")) && await rankOf(page, "dialog", 2), await words(page, "dialog"));
  await shoot(page, "rank-taken-row");
  await finished(page, "rank in a row");

  page = await visit(browser, payer, `${plan.base}/join?opening=first`);
  signed = payer.signed;
  await type(page, "#url", "http://first.strangers.test/");
  await Promise.all([page.waitForNavigation(), press(page, "form.draft button[type=submit]")]);
  const orders = await page.$$eval(".pay-ways code", (all) => all.map((e) => e.textContent).filter((s) => s.includes("first.strangers")));
  found.expect("rank of a draft", "the command and the prompt ask for the rank", orders.length === 2 && orders.every((s) => s.includes('"only_if_rank":1')), orders);
  await rival("5.00");
  await press(page, "#pay-join button[type=submit]");
  await gone("#pay-join", page);
  found.expect("rank of a draft", "the wallet was not asked", payer.signed === signed, payer.signed);
  await shoot(page, "rank-taken-draft");
  const price = /^Take rank 1 for \$([0-9.]+)$/.exec(await onward(page, "#pay-join"))?.[1];
  await Promise.all([page.waitForNavigation({ timeout: 60_000 }).catch(() => {}), press(page, "#pay-join .step button").catch(() => {})]);
  const facts = await words(page, "#result");
  found.expect("rank of a draft", "one press leads to the offer of now", !!price && facts.includes(`$${price}`) && (await words(page, "#pay-join button[type=submit]")).includes(`$${price}`), facts);
  await press(page, "#pay-join button[type=submit]");
  await button(page, "#pay-join", "Sign in");
  await says(page, "#pay-join", "the draft joins at the rank", /Welcome! .* It is at rank 1\./);
  flown.dollars += Number(price);
  flown.count++;
  await finished(page, "rank of a draft");
}

// flows does what a new visitor does, and counts it, with a plain and a smart account and without a
// wallet: join by an address alone, and bid on a member's page and on a row.
async function flows(browser, engine) {
  let page, slug;
  for (const account of ["plain", "smart"]) {
    const who = `${engine}, ${account} account`, fresh = () => new Wallet(plan.payer, account === "smart" ? { smart: plan.smart } : {});
    const paid = (dollars) => { flown.dollars += dollars; flown.count++; };
    page = await visit(browser, fresh(), plan.base + "/join");
    await draft(page, `${engine}-${account}.test`);
    slug = await joined(page, `${who}: joining ends with the receipt`);
    await counted(page, who, "join by an address alone", 6);
    await finished(page, who);
    paid(1);
    const wallet = fresh();
    page = await visit(browser, wallet, `${plan.base}/members/${slug}`);
    const offered = Number(await page.$eval("#pay-bid-amount", (e) => e.value));
    await press(page, "#pay-bid button[type=submit]");
    await says(page, "#pay-bid", `${who}: a bid counts`, new RegExp(`Your bid of \\$${offered.toFixed(2)} .* counts`));
    await counted(page, who, "bid what a member's page offers, first visit", 3);
    await finished(page, who);
    paid(offered);
    page = await visit(browser, wallet, `${plan.base}/leaderboard`);
    await page.reload({ waitUntil: "load" }); // the browser may have it from before the join
    counts(page);
    paid(await row(page, `a[data-bid="${slug}"]`, `${who}: a row takes a bid`));
    await counted(page, who, "bid on a row of the leaderboard", 3);
    await finished(page, who);
  }
  const who = `${engine}, no wallet`;
  page = await visit(browser, null, plan.base + "/join");
  await type(page, "#url", `${engine}-nobody.test`);
  await Promise.all([page.waitForNavigation(), press(page, "form.draft button[type=submit]")]);
  await walletless(page, who, "#pay-join", "/join?draft=");
  await counted(page, who, "join by an address alone, to the next step", 6);
  await finished(page, who);
  page = await visit(browser, null, `${plan.base}/members/${slug}`);
  await walletless(page, who, "#pay-bid", `/members/${slug}?amount=`);
  await counted(page, who, "bid what a member's page offers, to the next step", 3);
  await finished(page, who);
}

// leaves presses the button with which the owner takes the member out of the ring, and the one that puts
// it back, which the join page has for its address, too. The page is loaded again: browsers keep one for seconds, and that of before may name the owner of before.
async function leaves(browser, page, what, announced = true) {
  await page.reload({ waitUntil: "load" });
  await press(page, "#pay-leave button[type=submit]");
  await button(page, "#pay-leave", "Sign in");
  await says(page, "#pay-leave", what, /has left the ring/);
  const place = await page.$eval("#pay-leave .receipt a", (a) => a.href).catch(() => "");
  await finished(page, what);
  const wallet = page.wallet, offers = (page, part) => page.$eval(part, (e) => [e.innerText, [...e.querySelectorAll("form.wallet, pre")].map((e) => e.dataset.path ?? e.textContent)]).catch(() => ["", []]);
  const returns = ([words, ways], slug) => /Is it yours\? Return free until \d+ \w+ \d{4}/.test(words) && ways[0] === `api/ring/${slug}/return` && ways[1]?.endsWith(`/api/ring/${slug}/return' -J '{}'`);
  page = await visit(browser, wallet, plan.base + "/join", announced);
  await type(page, "#url", "http://by-hand.strangers.test/");
  await Promise.all([page.waitForNavigation(), press(page, "form.draft button[type=submit]")]);
  const slug = place.split("/").pop(), known = await offers(page, "#result");
  found.expect(what, "the join page offers the return", returns(known, slug), known);
  await shoot(page, "left-join");
  await accessible(page, "a draft of a member that has left");
  await finished(page, what);
  page = await visit(browser, wallet, place, announced);
  const gone = await offers(page, "main");
  found.expect(what, "the member's page offers the return", /This member has left/.test(gone[0]) && returns(gone, slug), gone);
  await shoot(page, "left");
  await accessible(page, "the page of a member that has left");
  await press(page, "#pay-return button[type=submit]");
  await page.waitForSelector("#pay-return .terms");
  const signs = await words(page, "#pay-return .terms");
  found.expect(what, "it is said what is signed", signs.includes(`Put ${slug} back into the ring #`) && /You put back into the ring/i.test(signs) && signs.includes("nothing"), signs);
  await button(page, "#pay-return", "Sign in");
  await says(page, "#pay-return", "the owner returns", /is back in the ring/);
  found.expect(what, "the member is there again", (await fetch(place)).status === 200);
  await finished(page, what);
}

// firefox does the short round: a bid over a lost tab, a join, an empty wallet, and the owner's
// leaving.
async function firefox({ slug, bids }) {
  const browser = await launch("firefox", plan.firefox);
  const payer = new Wallet(plan.payer, { chain: "0x1" }), poor = new Wallet(plan.poor, { chain: "0x1" });
  payer.knows.add("0x2105");
  poor.knows.add("0x2105");
  let page = await visit(browser, payer, `${plan.edge}/members/${slug}`, false);
  payer.behave.eth_signTypedData_v4 = () => fail(4001, "no");
  await bid(page, "2.50");
  await says(page, "#pay-bid", "Firefox: a refused signature is said", /declined in the wallet/);
  payer.hold();
  await bid(page, "2.50");
  await page.waitForSelector("#pay-bid .terms");
  const other = await visit(browser, payer, `${plan.edge}/members/${slug}`, false);
  await bid(other, "2.5");
  await says(other, "#pay-bid", "Firefox: a second tab is told of the first", /Another tab, or another part/);
  await other.close();
  await button(page, "#pay-bid", "Stop waiting for the wallet");
  await says(page, "#pay-bid", "Firefox: the first tab lets go", /Nothing was sent or charged/);
  payer.behave.eth_signTypedData_v4 = async (params) => { await wants("kill"); return payer.sign(params); };
  await bid(page, "2.50");
  await says(page, "#pay-bid", "Firefox: a lost origin is said", /kept in this browser/);
  await page.close();
  await wants("launch");
  page = await visit(browser, payer, `${plan.edge}/members/${slug}`, false);
  await says(page, ".resumed", "Firefox: a page goes on with what was begun", /Your bid of \$2\.50 .* counts/);
  found.expect("firefox", "one signature", payer.signed === 1, payer.signed);
  await finished(page, "firefox");
  await moved(bids + 2.5, 10);
  payer.behave = {};
  page = await visit(browser, poor, `${plan.base}/members/${slug}`);
  await bid(page, "1.00");
  await says(page, "#pay-bid", "Firefox: an empty wallet is said", /has too little/);
  await finished(page, "firefox, empty wallet");
  page = await visit(browser, payer, plan.base + "/join");
  await draft(page, "http://in-firefox.strangers.test/", "\u05e9\u05dc\u05d5\u05dd <b>");
  await shows(page, "#pay-join", "firefox joins", plan.base, await joined(page, "Firefox: joining ends with the receipt"));
  found.expect("firefox joins", "one signature", payer.signed === 2, payer.signed);
  await finished(page, "firefox joins");
  await moved(bids + 3.5, 11);
  await flows(browser, "Firefox");
  await moved(bids + 3.5, 11);
  await leaves(browser, await visit(browser, payer, `${plan.base}/members/${slug}`, false), "Firefox: the owner leaves and returns", false);
  await browser.close();
}

const left = await chromium();
if (plan.firefox) await firefox(left);
console.log(JSON.stringify({ checks: found.checks, findings: found.list }));
process.exit();
