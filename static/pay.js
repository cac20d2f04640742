// Pays for what a page offers, and proves who owns a member, with a wallet of this browser
// (EIP-6963, EIP-1193). The ring makes what the wallet signs, and the credential with room
// for the signature: nothing is hashed or encoded for a chain here.
//
// A wish is one request that is wanted. Once it is signed for, it is kept with its credential
// in the browser's storage until the ring's answer to it is known, and then deleted. Until
// then the same credential is sent again, so one wish is never signed for twice.

const root = new URL("../", import.meta.url);
const prefix = `webring-pay ${root.pathname} `; // rings may share a host
const operations = { Bid: "Your bid", Join: "Your registration", Change: "Your change", Own: "Your claim", Leave: "Your leaving" };
const running = new Set(); // ids of the wishes that this page waits for

// Words of others are only ever text.
const el = (name, props, ...kids) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...kids);
  return e;
};
const cut = (words, most = 200) => String(words ?? "").slice(0, most);

// told makes an error whose message is for people.
const told = (message, code) => Object.assign(new Error(message), { told: true, code });

const stopped = "stopped"; // the code of a wallet that nobody waits for any more

// --- Wallets

const announced = new Map();
addEventListener("eip6963:announceProvider", ({ detail }) => {
  const { info, provider } = detail ?? {};
  if (typeof info?.uuid === "string" && typeof provider?.request === "function" && announced.size < 20)
    announced.set(info.uuid, { name: cut(info.name, 40) || "the wallet", provider });
});
dispatchEvent(new Event("eip6963:requestProvider"));

function wallets() {
  if (announced.size) return [...announced.values()];
  const { ethereum } = window;
  return typeof ethereum?.request === "function" ? [{ name: "the wallet", provider: ethereum }] : [];
}

async function pick(ui) {
  const all = wallets();
  if (!all.length) throw told("No wallet was found in this browser. Open this page in a browser that has one, or pay in one of the other ways that this page names.");
  if (all.length === 1) return all[0];
  ui.say("Which wallet?");
  const wallet = await ui.choose([], [...all.map((w) => [w.name, w]), ["Cancel", null]]);
  if (!wallet) throw told("Nothing was signed.");
  return wallet;
}

// request asks a wallet, which may never answer. It fails in people's words, with the
// wallet's code.
async function request(wallet, ui, method, ...params) {
  try {
    return await ui.unlessCancelled(wallet.provider.request({ method, params }));
  } catch (e) {
    if (e?.told) throw e;
    if (e?.code === 4001) throw told("You refused in the wallet. Nothing was signed, and nothing is charged.", 4001);
    if (e?.code === -32002) throw told("The wallet has another question open. Answer that one first, then try again.");
    throw told("The wallet did not do it: " + cut(e?.message || e) + " Nothing was sent to the ring, and nothing is charged.", e?.code);
  }
}

// matches says whether a value, which may be anything, is a text of a form.
const matches = (value, form) => typeof value === "string" && form.test(value);

async function accountOf(wallet, owner, ui) {
  ui.say(`Open ${wallet.name} and let it show your account to this page.`);
  const all = await request(wallet, ui, "eth_requestAccounts");
  const account = Array.isArray(all) ? all[0] : undefined;
  if (!matches(account, /^0x[0-9a-fA-F]{40}$/)) throw told("The wallet shows no account.");
  if (owner && owner.toLowerCase() !== account.toLowerCase())
    throw told(`This place belongs to the account ${owner}, and the wallet shows ${account}. Choose the owner's account in the wallet, then try again.`);
  return account;
}

// reach has the wallet on a chain, which it may have to be told of.
async function reach(wallet, chain, ui) {
  const on = async () => Number(await request(wallet, ui, "eth_chainId")) === Number(chain.chainId);
  if (await on()) return;
  ui.say(`Let ${wallet.name} switch to the network ${chain.chainName}.`);
  const hand = `Switch the wallet to the network ${chain.chainName} (chain id ${Number(chain.chainId)}) by hand, then try again.`;
  try {
    await request(wallet, ui, "wallet_switchEthereumChain", { chainId: chain.chainId });
  } catch (e) {
    if (e.code === stopped) throw e;
    if (e.code === 4001) throw told("You refused to switch the network. Nothing was signed. " + hand);
    if (!chain.rpcUrls) throw told(`The wallet does not know the network. ${hand}`);
    try {
      await request(wallet, ui, "wallet_addEthereumChain", chain);
      if (!(await on())) await request(wallet, ui, "wallet_switchEthereumChain", { chainId: chain.chainId });
    } catch (e) {
      throw e.code === stopped ? e : told(`The wallet did not add the network. ${hand}`);
    }
  }
  if (!(await on())) throw told(`The wallet stayed on another network. ${hand}`);
}

// --- Wishes

const idOf = (wish) => `${wish.method} ${wish.path} ${wish.body}`;

// read gives a wish that was kept. What is no wish of this script is deleted.
function read(name) {
  try {
    const w = JSON.parse(localStorage.getItem(name));
    const good = w && ["POST", "PATCH", "DELETE"].includes(w.method) && /^api\/(register|bid|ring\/[a-z0-9-]{1,100}(\/claim)?)$/.test(w.path) &&
      [w.body, w.key, w.amount, w.explorer].every((s) => typeof s === "string") && Object.hasOwn(operations, w.what) &&
      matches(w.credential, /^Payment [\w-]+$/) && name === prefix + idOf(w);
    if (good) return w;
    localStorage.removeItem(name);
  } catch { /* no storage, or no JSON: there is nothing to go on with */ }
  return null;
}
const kept = (wish) => read(prefix + idOf(wish));
const drop = (wish) => { try { localStorage.removeItem(prefix + idOf(wish)); } catch {} };

function keep(wish) {
  try {
    localStorage.setItem(prefix + idOf(wish), JSON.stringify(wish));
    return true;
  } catch {
    return false;
  }
}

// wishOf reads a form. Of a change, it takes the fields that differ.
function wishOf(form) {
  const { method, path, fixed, what } = form.dataset;
  const body = fixed ? JSON.parse(fixed) : null;
  let fields = 0;
  for (const f of form.elements) {
    if (!f.name) continue;
    const value = f.value.replace(/\s+/g, " ").trim();
    const changed = f.options ? !f.selectedOptions[0]?.defaultSelected : value !== f.defaultValue.replace(/\s+/g, " ").trim();
    if (method === "PATCH" ? changed : value) body[f.name] = value, fields++;
  }
  if (method === "PATCH" && !fields) throw told("You have changed nothing yet.");
  return { method, path, what, body: body ? JSON.stringify(body) : "", amount: "" };
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

// send sends a wish. Without a document there is no answer of the ring's: doc is then null.
async function send(wish, header) {
  try {
    const headers = { Accept: "application/json", "Idempotency-Key": wish.key, ...header };
    if (wish.body) headers["Content-Type"] = "application/json";
    const r = await fetch(new URL(wish.path, root), {
      method: wish.method, headers, body: wish.body || undefined, credentials: "omit", cache: "no-store", redirect: "error",
    });
    const doc = await r.json();
    return { status: r.status, ok: r.ok, headers: r.headers, doc: r.ok || typeof doc?.code === "string" ? doc : null };
  } catch {
    return { status: 0, ok: false, headers: new Headers(), doc: null };
  }
}

// open says that the answer does not yet say what became of the wish.
// A request that an edge gave up while it came may have come before.
const open = ({ doc, status }) => !doc || status >= 500 || status === 429 || doc.code === "request_timeout" || (doc.code === "credential_reused" && doc.outcome === "pending");

// Why something failed, in people's words. The rest is said in the ring's.
const reasons = {
  insufficient_funds: "The account holds too little of the token on this network. Nothing was charged.",
  account_has_code: "This is a smart account, which cannot pay in this way. Nothing was charged. Choose an ordinary account, or pay in another way.",
  expired: "It took too long, and the offer had ended when the signature came. Nothing was charged. Start again.",
  wrong_signer: "The signature is not by the account that the wallet has shown. Nothing was charged.",
  wasted_gas: "A payment of this account failed here a short while ago. Nothing was charged. Try again in an hour, or from another account.",
};
const codes = {
  not_owner: "The account that has signed is not the owner's. Nothing was done.",
  payments_unavailable: "The ring takes no payments at the moment. Nothing was charged.",
  rate_limited: "Too many requests from here. Wait a minute, then try again.",
};
function why({ doc, status }) {
  if (!doc) return status ? "Something between here and the ring gave an answer that is not the ring's." : "The ring cannot be reached.";
  const errors = Array.isArray(doc.errors) ? doc.errors.slice(0, 9).map((e) => cut(String(e?.pointer ?? "").replace("/", "") + " " + (e?.detail ?? "")).trim()) : [];
  if (errors.length) return errors.join(". ") + ".";
  return reasons[doc.reason] ?? codes[doc.code] ?? cut(doc.detail || doc.title || doc.code, 600);
}

// ask gives the offer that a wallet can sign.
async function ask(wish, account) {
  const a = await send(wish, { "Wallet-Account": account });
  if (a.status !== 402) throw told(why(a));
  const offers = Array.isArray(a.doc?.offers) ? a.doc.offers : [];
  const { wallet } = offers.find((o) => o?.wallet) ?? {};
  if (!wallet?.typed_data?.message || !wallet.credential?.payload || !wallet.chain) throw told("The ring has no offer at the moment that a wallet can sign. Pay in another way, or try again later.");
  return { ...wallet, amount: String(a.doc.amount_usd), at: Date.now() };
}

const termsOf = (o) => JSON.stringify([o.amount, o.chain.chainId, o.typed_data.domain, o.typed_data.message.to, o.typed_data.message.value]);

// start goes from a form to the ring's answer.
async function start(form, ui) {
  const wish = wishOf(form);
  const earlier = kept(wish);
  if (earlier) return settle(earlier, ui);
  const wallet = await pick(ui);
  const account = await accountOf(wallet, form.dataset.owner, ui);
  wish.key = newKey();
  if ("claim" in form.dataset) await claim(wish, account, ui);
  ui.say("Asking the ring what it takes …");
  let offer = await ask(wish, account);
  for (let changed = false; ; changed = true) {
    ui.say(changed ? "The terms have changed meanwhile. Look at them again." : "Look at what you sign:");
    if (!(await ui.choose([summary(offer)], [[`Sign in ${wallet.name}`, true], ["Cancel", false]]))) throw told("Nothing was signed, and nothing is charged.");
    await reach(wallet, offer.chain, ui);
    const shown = termsOf(offer);
    if (Date.now() - offer.at > 15_000) offer = await ask(wish, account); // offers end soon: the wallet gets all of their time
    if (termsOf(offer) === shown) break;
  }
  const other = kept(wish); // of another tab
  if (other) return settle(other, ui);
  ui.say(`Sign in ${wallet.name}. The offer is good for about a minute.`);
  let signature = await request(wallet, ui, "eth_signTypedData_v4", account, JSON.stringify(offer.typed_data));
  if (!matches(signature, /^0x[0-9a-fA-F]{130}$/)) throw told("What the wallet gave is not the signature of an ordinary account, which is the only one that is taken. Nothing is charged.");
  // Some wallets count the last byte from 0, and tokens from 27.
  signature = signature.replace(/0([01])$/, (_, v) => (v === "0" ? "1b" : "1c"));
  const first = kept(wish);
  if (first) return settle(first, ui);
  offer.credential.payload.signature = signature;
  wish.credential = "Payment " + btoa(JSON.stringify(offer.credential)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  wish.amount = offer.amount;
  wish.explorer = cut(offer.chain.blockExplorerUrls?.[0]);
  if (!keep(wish)) ui.note("This browser keeps nothing for this page: leave it open until the answer is there.");
  return settle(wish, ui);
}

// claim has the site of the member name the account, and gives the wish the token.
async function claim(wish, account, ui) {
  const a = await send({ ...wish, body: JSON.stringify({ account }) }, {});
  if (!a.ok) throw told(why(a));
  const { token, file, dns } = a.doc;
  ui.say("Let your site show this token, in one of two places. You can come back for it: it stays the same.");
  const line = (term, ...what) => el("div", {}, el("dt", {}, term), el("dd", {}, ...what));
  const places = el("dl", { className: "terms" }, line("Token", el("pre", {}, el("code", {}, cut(token)))),
    line("In a file at", el("code", {}, cut(file?.url, 700))), line("Or in a TXT record of", el("code", {}, cut(dns?.name, 300))));
  if (!(await ui.choose([places], [["My site shows it", true], ["Later", false]]))) throw told("Nothing was signed.");
  wish.body = JSON.stringify({ token });
}

function summary(offer) {
  const { domain, message } = offer.typed_data;
  const line = (term, what) => el("div", {}, el("dt", {}, term), el("dd", {}, cut(what, 300)));
  if (message.to === undefined)
    return el("div", {}, el("dl", { className: "terms" }, line("You pay", "nothing"), line("You sign as", offer.account), line("Network", offer.chain.chainName)),
      el("p", {}, "The wallet shows a proof for this one request. It moves no money. When you have signed, the ring does at once what you asked for."));
  return el("div", {},
    el("dl", { className: "terms" }, line("You pay", `${offer.amount} USD, in ${domain.name}`), line("Network", offer.chain.chainName), line("To", message.to), line("From", offer.account)),
    el("p", {}, "The wallet asks for a signature, not for a transaction: you need no coin for fees. The ring then moves exactly this amount, once, and has the receipt for you within seconds. If it cannot, nothing is charged, and the signature is worth nothing after about a minute."));
}

// settle sends a kept wish until the answer says what became of it.
async function settle(wish, ui) {
  running.add(idOf(wish));
  try {
    for (let turn = 0; ; turn++) {
      ui.say(wish.path === "api/register" || wish.path === "api/bid" ? "Signed. Waiting for the payment to be settled …" : "Signed. Waiting for the ring …");
      const a = await send(wish, { Authorization: wish.credential });
      if (!open(a)) {
        drop(wish);
        if (a.ok || (a.doc.code === "credential_reused" && a.doc.outcome === "applied")) return done(wish, a, ui);
        throw told(why(a) + (a.doc.reference ? " Reference: " + cut(a.doc.reference) : ""));
      }
      const seconds = Math.min(Math.max(Number(a.headers.get("Retry-After")) || Math.min(2 ** turn, 30), 1), 120);
      ui.say(`${why(a)} Your signature is kept in this browser, and sent again in ${seconds} s: it counts once, however often it is sent. You may close this page and come back.`);
      await Promise.race([ui.choose([], [["Ask now", true]]), new Promise((go) => setTimeout(go, seconds * 1000))]);
    }
  } finally {
    running.delete(idOf(wish));
  }
}

// done shows what came of a wish, and where to go on.
function done(wish, a, ui) {
  const doc = a.doc;
  const slug = cut(doc.member?.slug ?? doc.bid?.member ?? (doc.links?.self && cut(doc.links.self, 999).split("/").pop()) ?? /^api\/ring\/([^/]+)/.exec(wish.path)?.[1], 100);
  const rank = Number(doc.leaderboard_rank) || 0;
  const said = { Bid: `Your bid of ${wish.amount} USD on ${slug} counts.`, Join: `You are in the ring, as ${slug}.`, Change: "It is changed.", Own: "The wallet's account owns the place now.", Leave: `${slug} has left the ring.` };
  ui.say((said[wish.what] ?? "It is done.") + (rank ? ` It stands at rank ${rank}.` : "") + (a.ok ? "" : " It was done when the page last asked."));
  const paid = wish.what === "Bid" || wish.what === "Join";
  const lines = [];
  if (paid) {
    lines.push(["Paid", `${wish.amount} USD`]);
    const reference = referenceOf(a.headers.get("Payment-Receipt"));
    if (reference) lines.push(["Receipt", /^https:\/\/[\w.-]+$/.test(wish.explorer) ? el("a", { href: `${wish.explorer}/tx/${reference}`, rel: "noopener" }, reference) : reference]);
  }
  const page = "members/" + encodeURIComponent(slug);
  const links = slug && wish.what !== "Leave" ? [["See the member's page as it is now", page], ...(paid ? [["See the leaderboard", "leaderboard"]] : [])] : [["Back to the ring", ""]];
  const list = el("ul", {}, ...links.map(linkTo)), receipt = el("div", { className: "receipt" });
  if (lines.length) receipt.append(el("dl", { className: "terms" }, ...lines.map(([term, what]) => el("div", {}, el("dt", {}, term), el("dd", {}, what)))));
  receipt.append(list);
  ui.show(receipt);
  if (slug && paid)
    showIt(new URL(page, root), Number(a.headers.get("Webring-Seq")), receipt).catch(() => list.append(linkTo(["Show it: a card to post, a button, a snippet", page + "#show"])));
}

const linkTo = ([words, to]) => el("li", {}, el("a", { href: new URL(to, root) }, words));

// showIt adds to a receipt what the member's page has for its owner to show: a card, words, a
// button and a snippet. A node that has not come to a ledger position shows the member as it
// was, or none, and is asked again.
async function showIt(page, seq, receipt) {
  for (let turn = 1; ; turn++) {
    const r = await fetch(page, { headers: { Accept: "text/html" }, credentials: "omit", cache: "no-store" });
    if (r.ok && Number(r.headers.get("Webring-Seq")) >= seq) {
      const part = new DOMParser().parseFromString(await r.text(), "text/html").getElementById("show");
      for (const name of ["href", "src", "srcset"])
        for (const e of part.querySelectorAll(`[${name}]`)) {
          const [address, ...rest] = e.getAttribute(name).split(" ");
          e.setAttribute(name, [new URL(address, page), ...rest].join(" "));
        }
      receipt.append(...document.importNode(part, true).childNodes);
      added(receipt);
      return;
    }
    if (turn > 4) throw new Error(r.status);
    await new Promise((go) => setTimeout(go, turn * 1000));
  }
}

// added tells page.js that there may be something new to copy.
const added = (part) => part.dispatchEvent(new Event("added", { bubbles: true }));

// referenceOf reads a receipt (the header field Payment-Receipt).
function referenceOf(receipt) {
  try {
    const { reference } = JSON.parse(atob(receipt.replaceAll("-", "+").replaceAll("_", "/")));
    return /^0x[0-9a-f]{64}$/.test(reference) ? reference : "";
  } catch {
    return "";
  }
}

// --- What people see

// UI says what happens in two elements: a line that is read out, and what can be done.
class UI {
  constructor(said, step) {
    Object.assign(this, { said, step, extra: "" });
  }
  say(words, wrong = false) {
    const text = this.extra + words;
    if (this.said.textContent !== text) this.said.textContent = text;
    this.said.classList.toggle("wrong", wrong);
    if (wrong) this.show();
  }
  fail(e) {
    this.say(e?.told ? e.message : "This page has failed (" + cut(e?.message || e) + "). What you have signed is kept until the ring has answered: load the page again to go on.", true);
  }
  note(words) { this.extra = words + " "; }
  show(...nodes) {
    const had = this.step.contains(document.activeElement);
    this.step.replaceChildren(...nodes);
    added(this.step);
    if (had) this.step.focus();
  }
  // choose shows nodes and buttons, and gives the value of the button that is pressed.
  choose(nodes, answers) {
    return new Promise((choice) => {
      const buttons = answers.map(([words, value], i) => el("button", { type: "button", className: i ? "plain" : "", onclick: () => {
        this.show();
        choice(value);
      } }, words));
      this.show(...nodes, el("p", { className: "row" }, ...buttons));
      if (nodes.length) this.step.focus();
    });
  }
  // unlessCancelled waits for a wallet, which may never answer.
  async unlessCancelled(asked) {
    const cancelled = this.choose([], [["Stop waiting for the wallet", null]]).then(() => { throw told("Nothing was sent to the ring, and nothing is charged.", stopped); });
    try {
      return await Promise.race([asked, cancelled]);
    } finally {
      cancelled.catch(() => {});
      this.show();
    }
  }
}

for (const form of document.querySelectorAll("form.wallet")) {
  const ui = new UI(form.querySelector(".said"), form.querySelector(".step"));
  let busy = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    const button = form.querySelector("button[type=submit]");
    button.setAttribute("aria-disabled", "true");
    try {
      await start(form, ui);
    } catch (e) {
      ui.fail(e);
      if (document.activeElement === document.body || document.activeElement === ui.step) button.focus();
    }
    busy = false;
    button.removeAttribute("aria-disabled");
  });
}

// Links to bid open the one dialog, where there is a wallet.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-bid]"), dialog = document.querySelector("dialog.pay-dialog");
  if (!link || !dialog || !wallets().length || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const form = dialog.querySelector("form.wallet");
  if (!form.querySelector("[aria-disabled]")) {
    form.dataset.fixed = JSON.stringify({ member: link.dataset.bid });
    dialog.querySelector("[data-bid-slug]").textContent = link.dataset.bid;
    form.elements.amount.value = link.dataset.amount;
    form.querySelector(".said").textContent = "";
    form.querySelector(".step").replaceChildren();
  }
  dialog.showModal();
});

// resume goes on with what an earlier page has begun.
function resume() {
  let names = [];
  try { names = Object.keys(localStorage).filter((name) => name.startsWith(prefix)); } catch {}
  for (const wish of names.map(read)) {
    if (!wish || running.has(idOf(wish))) continue;
    const said = el("p", { className: "said" }), step = el("div", { className: "step", tabIndex: -1 });
    said.setAttribute("role", "status");
    const words = operations[wish.what];
    const part = el("section", { className: "panel wallet resumed" }, el("h2", {}, words + " is not answered yet"), said, step);
    part.setAttribute("aria-label", words);
    document.querySelector("main").prepend(part);
    const ui = new UI(said, step), head = part.firstChild;
    settle(wish, ui).then(() => (head.textContent = words), (e) => {
      head.textContent = words;
      ui.fail(e);
    });
  }
}
resume();
