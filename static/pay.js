// Pays for what a page offers, and proves who owns a member, with a wallet of this browser
// (EIP-6963, EIP-1193). The ring makes what the wallet signs, and the credential with room
// for the signature: nothing is hashed or encoded for a chain here.
//
// A wish is one request that is wanted. Once it is signed for, it is kept with its credential
// in the browser's storage until the ring's answer to it is known, and then deleted. Until
// then the same credential is sent again, so one wish is never signed for twice. Somebody may
// give a wish up: then its credential is not sent any more until it has expired, and once
// after that, which only tells what became of it. It blocks its wish until that is known.

const root = new URL("../", import.meta.url);
const prefix = `webring-pay ${root.pathname} `; // rings may share a host
const running = new Set(); // ids of the wishes that this page waits for

const most = 20; // wishes that may be kept
const oldest = 30 * 86_400_000; // for how long after its end a wish is asked about, in milliseconds
const grace = 90_000; // for how long after its end a credential may still be mined, as clocks differ

// Words of others are only ever text.
const el = (name, props, ...kids) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...kids);
  return e;
};
const cut = (words, most = 200) => String(words ?? "").slice(0, most);
const line = (term, ...what) => el("div", {}, el("dt", {}, term), el("dd", {}, ...what));
const sleep = (ms) => new Promise((go) => setTimeout(() => go(true), ms));

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

// The page leads with what works: it shows the button of a wallet where there is one, and the
// other ways, open at the first of them, where there is none.
function lead(late) {
  const { dataset } = document.documentElement;
  dataset.wallet = wallets().length ? "yes" : late ? "no" : (dataset.wallet ?? "");
  if (dataset.wallet === "no") for (const way of document.querySelectorAll(".pay-ways .way-phone")) way.open = true;
}
addEventListener("eip6963:announceProvider", () => lead());
addEventListener("ethereum#initialized", () => lead());
setTimeout(() => lead(true), 800);
lead();

function wallets() {
  if (announced.size) return [...announced.values()];
  const { ethereum } = window;
  return typeof ethereum?.request === "function" ? [{ name: "the wallet", provider: ethereum }] : [];
}

async function pick(ui) {
  for (let i = 0; i < 10 && !wallets().length; i++) { // some come late
    ui.say("Looking for a wallet …");
    dispatchEvent(new Event("eip6963:requestProvider"));
    await sleep(150);
  }
  const all = wallets();
  if (!all.length) throw told("No wallet found in this browser. Use a browser with a wallet, or pay another way listed on this page.");
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
    if (e?.code === 4001) throw told("You declined in the wallet. Nothing was signed or charged.", 4001);
    if (e?.code === 4100) throw told("The wallet does not sign with this account. Choose the account in the wallet, then try again. Nothing was sent or charged.");
    if (e?.code === -32002) throw told("The wallet has another request open. Answer it first, then try again.");
    throw told("The wallet failed: " + cut(e?.message || e) + " Nothing was sent or charged.", e?.code);
  }
}

// matches says whether a value, which may be anything, is a text of a form.
const matches = (value, form) => typeof value === "string" && form.test(value);

async function accountOf(wallet, owner, ui) {
  ui.say(`Open ${wallet.name} and connect your account.`);
  const all = await request(wallet, ui, "eth_requestAccounts");
  const account = Array.isArray(all) ? all[0] : undefined;
  if (!matches(account, /^0x[0-9a-fA-F]{40}$/)) throw told("The wallet has no account.");
  if (owner && owner.toLowerCase() !== account.toLowerCase())
    throw told(`The owner is ${owner}, but the wallet uses ${account}. Choose the owner's account in the wallet, then try again.`);
  return account;
}

// reach has the wallet on a chain, which it may have to be told of.
async function reach(wallet, chain, ui) {
  const on = async () => Number(await request(wallet, ui, "eth_chainId")) === Number(chain.chainId);
  if (await on()) return;
  ui.say(`Allow ${wallet.name} to switch to the network ${chain.chainName}.`);
  const hand = `Switch the wallet to the network ${chain.chainName} (chain id ${Number(chain.chainId)}) by hand, then try again.`;
  try {
    await request(wallet, ui, "wallet_switchEthereumChain", { chainId: chain.chainId });
  } catch (e) {
    if (e.code === stopped) throw e;
    if (e.code === 4001) throw told("You declined to switch the network. Nothing was signed. " + hand);
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

// The site's token is of the account that claims, so a claim is one wish whatever it is.
const idOf = (wish) => `${wish.method} ${wish.path} ${wish.path.endsWith("/claim") ? "" : wish.body}`;
const nameIn = (wish) => prefix + idOf(wish); // in the storage
const pays = (wish) => wish.path === "api/register" || wish.path === "api/bid";

// unpacked is what a text in base64url holds.
const unpacked = (text) => JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));

const fields = (wish) => JSON.parse(wish.body || "{}");
const slugOf = (wish) => fields(wish).member ?? /^api\/ring\/([^/]+)/.exec(wish.path)?.[1] ?? "";

// titled says what a wish is. Marks keep a name from turning the words around it.
function titled(wish) {
  const name = `\u2068${cut(wish.name || fields(wish).name || slugOf(wish), 80)}\u2069`;
  return {
    Bid: `Your bid of $${wish.amount} on ${name}`, Join: `Your registration of ${name}`, Change: `Your change of ${name}`,
    Own: `Your claim to ${name}`, Return: `Your return of ${name}`, Leave: `Your request to take ${name} out of the ring`,
  }[wish.what];
}

// What the browser does not keep is kept as long as the page is open.
const unkept = new Map();
const asks = (event) => { if (unkept.size) event.preventDefault(); };

// read gives a wish that was kept. Whatever else lies there may be another version's, and is
// left alone.
function read(name) {
  try {
    const w = JSON.parse(unkept.get(name) ?? localStorage.getItem(name));
    const good = w && ["POST", "PATCH", "DELETE"].includes(w.method) && /^api\/(register|bid|ring\/[a-z0-9-]{1,100}(\/claim|\/return)?)$/.test(w.path) &&
      [w.body, w.key, w.amount, w.explorer].every((s) => typeof s === "string") && matches(w.credential, /^Payment [\w-]+$/) &&
      name === nameIn(w) && endOf(w) > 0 && titled(w);
    return good ? w : null;
  } catch {
    return null; // no storage, or no wish
  }
}
const kept = (wish) => read(nameIn(wish));

function allKept() {
  let names = [];
  try { names = Object.keys(localStorage).filter((name) => name.startsWith(prefix)); } catch {}
  return [...new Set([...names, ...unkept.keys()])].map(read).filter(Boolean);
}

// drop forgets a wish, and none that was signed after it in its place.
function drop(wish) {
  if (kept(wish)?.credential !== wish.credential) return;
  unkept.delete(nameIn(wish));
  try { localStorage.removeItem(nameIn(wish)); } catch {}
}

function keep(wish) {
  const text = JSON.stringify(wish);
  try {
    localStorage.setItem(nameIn(wish), text);
    unkept.delete(nameIn(wish));
  } catch {
    unkept.set(nameIn(wish), text);
    addEventListener("beforeunload", asks);
  }
}

// keeps says whether this browser would keep a wish.
function keeps() {
  try {
    localStorage.setItem(prefix, "x".repeat(8000));
    localStorage.removeItem(prefix);
    return true;
  } catch {
    return false;
  }
}

// alone runs f while no other page of this browser is at the same wish. It waits for the
// other one, or fails. A browser without locks runs f at once.
async function alone(wish, waits, f) {
  let begun = false;
  try {
    return await navigator.locks.request(nameIn(wish), { ifAvailable: !waits }, (lock) => {
      if (!lock) throw told("Another tab, or another part of this page, is already doing this. Finish or close it, then try again.");
      begun = true;
      return f();
    });
  } catch (e) {
    if (begun || e?.told) throw e;
  }
  return f();
}

let ahead = 0; // by how much this browser's clock is ahead of the ring's, in milliseconds
function heed(answer) {
  const date = Date.parse(answer.headers.get("Date"));
  if (date) ahead = Date.now() - date;
}

// endOf is when the credential of a wish expires, by the ring's clock.
const endOf = (wish) => Date.parse(unpacked(wish.credential.slice("Payment ".length)).challenge.expires);
const sinceEnd = (wish) => Date.now() - ahead - endOf(wish);

// over says whether nothing more can come of a wish than has already. The ring's clock
// counts, because this browser's may be wrong.
async function over(wish) {
  try {
    heed(await fetch(new URL("api", root), { method: "HEAD", credentials: "omit", cache: "no-store" }));
    return sinceEnd(wish) > grace;
  } catch {
    return false;
  }
}

// gaveUp says what is known of a wish that was given up.
function gaveUp(wish) {
  const until = new Date(endOf(wish) + ahead + grace + 60_000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const ended = sinceEnd(wish) > grace;
  return "You stopped waiting. The ring may have your signature, and the outcome is unknown. " + (pays(wish)
    ? (ended ? `The payment of $${wish.amount} has expired, unless it was made in time: then it counts. ` : `The payment of $${wish.amount} can still be made until ${until}, and then it counts in full. `) +
      "Until the outcome is known, this page signs nothing else for it. Do not pay another way, or you may pay twice. "
    : (ended ? "It has expired, unless it was done in time. " : `It can still be done until ${until}. `) + "Nothing is charged. ") +
    (unkept.has(nameIn(wish)) ? `This browser stores nothing for this page: check the member's page${ended ? "" : ` after ${until}`}.` : `Come back ${ended ? "later" : `after ${until}`} to see what happened.`);
}

// usd spells an amount as the ring does, so that 2 and 2.00 are one wish. People write 2,50 and $2.50, too.
function usd(text) {
  const [, whole, part = ""] = /^\$?\s*0*(\d+)(?:[.,](\d{1,2}))?$/.exec(text) ?? [];
  return whole ? `${whole}.${part.padEnd(2, "0")}` : text;
}

// wishOf reads a form. Of a change, it takes the fields that differ.
function wishOf(form) {
  const { method, path, fixed, what, name = "" } = form.dataset;
  const { only_if_rank, ...order } = JSON.parse(fixed || "{}"), body = fixed ? order : null;
  let changes = 0;
  for (const f of form.elements) {
    if (!f.name) continue;
    const value = f.value.replace(/\s+/g, " ").trim();
    const changed = f.type === "checkbox" ? f.checked : f.options ? !f.selectedOptions[0]?.defaultSelected : value !== f.defaultValue.replace(/\s+/g, " ").trim();
    if (method === "PATCH" ? changed : value) body[f.dataset.field ?? f.name] = f.name === "amount" ? usd(value) : value, changes++;
  }
  if (method === "PATCH" && !changes) throw told("You have changed nothing yet.");
  return { method, path, what, name, body: body ? JSON.stringify(body) : "", amount: order.amount ?? form.dataset.price ?? "", rank: only_if_rank && boxOn(form) ? only_if_rank : rankOf(form, order.amount) };
}

// A rank that the page shows is part of what is asked for, as long as its box is on.
const boxOn = (form) => form.querySelector(".pay-here input")?.checked;
const saidOf = (form) => form.closest("section, dialog").querySelector("[data-buys=words]"); // what an amount does

// rankOf is the rank that the page shows for an amount: 0 where none is asked for, undefined while
// the page speaks of another amount.
function rankOf(form, amount) {
  if (!amount || !boxOn(form)) return 0;
  const { dataset } = saidOf(form);
  return dataset.amount === amount ? Number(dataset.rank) : undefined;
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

// send sends a wish. Without a document there is no answer of the ring's: doc is then null.
// What is sent follows no redirect.
async function send(wish, header) {
  let status = 0, headers = new Headers();
  try {
    const sent = { Accept: "application/json", "Idempotency-Key": wish.key, ...header };
    const body = wish.rank ? JSON.stringify({ ...fields(wish), only_if_rank: wish.rank }) : wish.body;
    if (body) sent["Content-Type"] = "application/json";
    const r = await fetch(new URL(wish.path, root), {
      method: wish.method, headers: sent, body: body || undefined, credentials: "omit", cache: "no-store", redirect: "manual",
      signal: AbortSignal.timeout?.(180_000),
    });
    status = r.type === "opaqueredirect" ? 302 : r.status;
    const doc = await r.json();
    // A proof or a payment that was taken has a receipt; a problem of the ring's says its status.
    const whole = r.ok ? typeof doc === "object" && (!header.Authorization || r.headers.has("Payment-Receipt")) : typeof doc?.code === "string" && doc.status === status;
    heed(r);
    if (whole) return { status, ok: r.ok, headers: r.headers, doc };
  } catch { /* nothing, or a part of something */ }
  return { status, ok: false, headers, doc: null };
}

// open says that the answer does not yet say what became of the wish. A request that an edge
// gave up while it came may have come before, and so may one that comes without its credential,
// which something has taken away.
const open = ({ doc, status }) => !doc || status >= 500 || status === 429 || ["request_timeout", "payment_required"].includes(doc.code) || (doc.code === "credential_reused" && doc.outcome === "pending");

// Why something failed, in people's words. The rest is said in the ring's.
const reasons = {
  insufficient_funds: "The account has too little of this token on this network. Nothing was charged.",
  expired: "The offer expired before you signed. Nothing was charged. Start again.",
  wrong_signer: "The signature is not this account's. Nothing was charged. A smart account can pay only on a network where its contract is: otherwise use another account.",
  wasted_gas: "A recent payment from this account failed. Nothing was charged. Try again in an hour, or use another account.",
};
const codes = {
  not_owner: "This account is not the owner. Nothing was changed.",
  payments_unavailable: "The ring takes no payments right now.",
  rate_limited: "Too many requests. Wait a minute, then try again.",
};
function why({ doc, status }) {
  if (status === 302) return "The ring's address leads somewhere else, to where nothing that you sign is sent.";
  if (!doc) return status ? "The answer is incomplete or not from the ring." : "The ring cannot be reached.";
  const errors = Array.isArray(doc.errors) ? doc.errors.slice(0, 9).map((e) => cut(String(e?.pointer ?? "").replace("/", "") + " " + (e?.detail ?? "")).trim()) : [];
  if (errors.length) return errors.join(". ") + ".";
  return reasons[doc.reason] ?? codes[doc.code] ?? cut(doc.detail || doc.title || doc.code, 600);
}

// refused makes the error of an answer. Of a rank that is gone it says what that takes now, and has
// it as taken.
function refused(wish, a) {
  if (a.doc?.code !== "rank_taken") return told(why(a) + (a.doc?.reference ? " Reference: " + cut(a.doc.reference) : ""));
  const { rank, amount } = wish, bid = a.doc.to_take_rank_usd ?? a.doc.join_at_rank_bid_usd, cents = (usd) => Math.round(100 * Number(usd ?? 0));
  if (!matches(bid, /^\d{1,7}\.\d\d$/)) return Object.assign(told(why(a)), { taken: { rank } });
  const total = wish.what === "Join" ? ((cents(amount) - cents(fields(wish).bid) + cents(bid)) / 100).toFixed(2) : bid;
  return Object.assign(told(`$${amount} no longer gives rank ${rank}. Rank ${rank} takes $${total} ${wish.what === "Join" ? "in total " : ""}now. Nothing was charged.`), { taken: { rank, bid, total } });
}

// onward goes on after a rank was taken, with what it takes now: a bid at once, a draft once it is checked with the new bid.
function onward(form, { rank, bid, total }) {
  const draft = form.dataset.what === "Join" && document.querySelector("form.draft");
  const go = () => {
    if (bid && draft) {
      draft.elements.opening.value = "own";
      draft.elements.bid.value = bid;
      return draft.requestSubmit();
    }
    if (bid) {
      form.elements.amount.value = bid;
      Object.assign(saidOf(form).dataset, { amount: bid, rank }); // the button has said so
      form.elements.amount.dispatchEvent(new Event("input", { bubbles: true }));
    }
    form.requestSubmit();
  };
  return el("p", { className: "row" }, el("button", { type: "button", onclick: go }, !bid ? "Try again" : draft ? `Take rank ${rank} for $${total}` : `Bid $${total} for rank ${rank}`));
}

// ask gives the offer that a wallet can sign.
async function ask(wish, account) {
  const a = await send(wish, { "Wallet-Account": account });
  if (a.status !== 402) throw refused(wish, a);
  const offers = Array.isArray(a.doc?.offers) ? a.doc.offers : [];
  const { wallet } = offers.find((o) => o?.wallet) ?? {};
  if (!wallet?.typed_data?.message || !wallet.credential?.payload || !wallet.chain) throw told("The ring has no offer for browser wallets right now. Pay another way, or try again later.");
  const offer = { ...wallet, amount: String(a.doc.amount_usd), at: Date.now() };
  const { primaryType, message } = wallet.typed_data, wanted = wish.what === "Bid" ? fields(wish).amount : offer.amount;
  if (offer.amount !== wanted) throw told(`The ring asks for $${cut(offer.amount, 20)}, not the $${wanted} you bid. Nothing was signed.`);
  const right = pays(wish) ? primaryType === "TransferWithAuthorization" && Number(message.value) === Math.round(Number(offer.amount) * 1e6) : primaryType === "Proof" && offer.amount === "0.00" && String(message.challengeId).startsWith(proven(wish, account));
  if (!right) throw told("The wallet would sign something other than this page shows. Nothing was signed.");
  return offer;
}

const termsOf = (o) => JSON.stringify([o.amount, o.chain.chainId, o.typed_data.domain, o.typed_data.message.to, o.typed_data.message.value]);

// start goes from a form to the ring's answer.
async function start(form, ui) {
  const wish = wishOf(form);
  if (running.has(idOf(wish))) throw told("This is already running in another part of this page.");
  return alone(wish, false, async () => {
    const earlier = kept(wish);
    if (!earlier) return begin(wish, form, ui);
    // Sent before its end, it may be paid after all.
    if (earlier.given && !(await over(earlier))) {
      ui.say(gaveUp(earlier));
      if (!(await ui.choose([], [["Send it again", true], ["Cancel", false]]))) throw told(gaveUp(earlier));
    }
    return settle(earlier, ui);
  });
}

// begin asks for a signature.
async function begin(wish, form, ui) {
  if (allKept().length >= most) throw told(`The answers to ${most} things that were signed in this browser are not known yet. Nothing more is signed until some are.`);
  ui.beside = [];
  if (wish.rank === undefined) { // pressed before the page said what this amount does
    ui.say("Looking up what this amount does …");
    const said = new Promise((go) => document.addEventListener("bought", go, { once: true }));
    form.elements.amount.dispatchEvent(new Event("input", { bubbles: true }));
    await Promise.race([said, sleep(10_000)]);
    wish.rank = rankOf(form, wish.amount);
    wish.late = true;
  }
  const wallet = await pick(ui);
  const account = await accountOf(wallet, form.dataset.owner, ui);
  wish.key = newKey();
  if ("claim" in form.dataset) await claim(wish, account, ui);
  ui.say("Asking the ring for an offer …");
  let offer = await ask(wish, account), shown, doubts;
  if (wish.rank === undefined) throw told(`This page could not find out which rank $${wish.amount} gives. Nothing was signed or charged. Try again, or clear the box.`);
  do {
    doubts = doubtsOf(wish, offer, form.dataset.price);
    const terms = summary(wish, offer, doubts);
    // The page has said what is paid, and for what: the wallet asks at once, with the terms beside it.
    if (!pays(wish) || doubts.length || shown) {
      ui.say(shown ? "The terms have changed. Check them again." : "Check before you sign:");
      if (!(await ui.choose([terms], [[`Sign in ${wallet.name}`, true], ["Cancel", false]]))) throw told("Nothing was signed or charged.");
    }
    ui.beside = [terms];
    await reach(wallet, offer.chain, ui);
    shown = termsOf(offer);
    if (Date.now() - offer.at > 15_000) offer = await ask(wish, account); // offers end soon: the wallet gets all of their time
  } while (termsOf(offer) !== shown || `${doubtsOf(wish, offer, form.dataset.price)}` !== `${doubts}`);
  ui.say(`Check the terms, then sign in ${wallet.name}. The offer expires in about a minute.`);
  let signature = await request(wallet, ui, "eth_signTypedData_v4", account, JSON.stringify(offer.typed_data));
  if (!matches(signature, /^0x([0-9a-fA-F]{2})+$/)) throw told("The wallet did not return a signature. Nothing was charged.");
  // Some wallets count the last of 65 bytes from 0, and tokens from 27. Smart accounts sign in any length.
  signature = signature.replace(/^(.{130})0([01])$/, (_, rs, v) => rs + (v === "0" ? "1b" : "1c"));
  const first = kept(wish); // of another tab, in a browser without locks
  if (first) return settle(first, ui);
  offer.credential.payload.signature = signature;
  wish.credential = "Payment " + btoa(JSON.stringify(offer.credential)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  wish.amount = offer.amount;
  wish.explorer = cut(offer.chain.blockExplorerUrls?.[0]);
  keep(wish);
  return settle(wish, ui);
}

// claim has the site of the member name the account, and gives the wish the token.
async function claim(wish, account, ui) {
  const a = await send({ ...wish, body: JSON.stringify({ account }) }, {});
  if (!a.ok) throw told(why(a));
  const { token, file, dns } = a.doc;
  ui.say("Put this token on your site, in one of two places. You can come back later: it stays the same.");
  const places = el("dl", { className: "terms" }, line("Token", el("pre", {}, el("code", {}, cut(token)))),
    line("In a file at", el("code", {}, cut(file?.url, 700))), line("Or in a TXT record of", el("code", {}, cut(dns?.name, 300))));
  if (!(await ui.choose([places], [["My site shows it", true], ["Later", false]]))) throw told("Nothing was signed.");
  wish.body = JSON.stringify({ token });
}

// wanted says in lines what is signed for.
function wanted(wish) {
  const f = fields(wish), name = (words) => el("bdi", {}, cut(words, 80)), who = name(wish.name || f.name || slugOf(wish));
  switch (wish.what) {
    case "Join": return [line("You join as", name(f.name)), line("Address", cut(f.url, 600)), line("Opening bid", f.bid ? `$${cut(f.bid, 20)}` : "none")];
    case "Bid": return [line("You bid on", who)];
    case "Change": return [line("You change", who), ...Object.entries(f).map(([field, value]) => line(`Its new ${field === "url" ? "address" : field}`, el("bdi", {}, cut(value, 600) || "none")))];
    case "Return": return [line("You put back into the ring", who)];
    case "Own": return [line("You become the owner of", who)];
    default: return [line("You take out of the ring", who)];
  }
}

// proven is how the challenge begins that may be signed for a wish: the wallet shows it.
function proven(wish, account) {
  const slug = slugOf(wish);
  switch (wish.what) {
    case "Change": return `Change ${slug}: `;
    case "Return": return `Put ${slug} back into the ring #`;
    case "Own": return `Make ${account.toLowerCase()} the owner of ${slug} #`;
    default: return `Remove ${slug} from the ring #`;
  }
}

// doubtsOf says in sentences what somebody should know before the wallet asks, and cannot know
// from the page. price is what the page has said, if it has.
function doubtsOf(wish, offer, price) {
  const also = allKept().filter((w) => pays(w) && pays(wish) && slugOf(w) === slugOf(wish)).map(titled);
  return [
    wish.late && wish.rank && `$${wish.amount} gives rank ${wish.rank}.`,
    price && price !== offer.amount && `The price has changed. This page showed $${price}.`,
    pays(wish) && offer.amount.length > "99.99".length && `You pay $${offer.amount}. A payment cannot be taken back.`,
    also.length && `${also.join(", and ")} has no answer yet. This signature adds to it.`,
    keeps() || "This browser stores nothing for this page, as in some private windows. Keep the page open until the ring answers.",
  ].filter((doubt) => typeof doubt === "string");
}

// summary says what a signature is for, what it costs, and what happens next.
function summary(wish, offer, doubts) {
  const { domain, message } = offer.typed_data, paid = pays(wish);
  const notes = [...doubts,
    paid
      ? "You sign a message, not a transaction: no gas needed. The ring then moves exactly this amount, once, and shows the receipt within seconds. If it fails, nothing is charged, and the signature expires in about a minute."
      : "The wallet shows these words as challengeId. The signature works for this one request and moves no money.",
  ];
  return el("div", {}, el("dl", { className: "terms" }, ...wanted(wish),
    ...(paid ? [line("You pay", `$${offer.amount} in ${cut(domain.name, 40)}`), ...(wish.rank ? [line("You get", `Rank ${Number(wish.rank)} or better, or nothing is charged`)] : []), line("To", cut(message.to))] : [line("The wallet shows", el("bdi", {}, cut(message.challengeId, 700))), line("You pay", "nothing")]),
    line(paid ? "From" : "You sign as", cut(offer.account)), line("Network", `${cut(offer.chain.chainName, 60)} (chain id ${Number(offer.chain.chainId)})`)),
  ...notes.map((n) => el("p", {}, n)));
}

// settle sends a kept wish until the answer says what became of it, or it is given up.
async function settle(wish, ui) {
  const id = idOf(wish);
  running.add(id);
  if (wish.given) keep(Object.assign(wish, { given: false }));
  try {
    for (let turn = 0; ; turn++) {
      ui.say(pays(wish) ? "Signed. Waiting for the payment to settle …" : "Signed. Waiting for the ring …");
      let waits = true;
      const giveUp = [["Stop waiting", null]], sent = send(wish, { Authorization: wish.credential });
      let a = await Promise.race([sent, sleep(4000).then(() => (waits ? ui.choose([], giveUp) : sent))]);
      waits = false;
      if (a && !open(a)) return conclude(wish, a, ui);
      if (a) {
        const seconds = Math.min(Math.max(Number(a.headers.get("Retry-After")) || Math.min(2 ** turn, 30), 1), 120);
        // Others may say that nothing was charged, and cannot know what came of it earlier.
        const what = !a.doc || a.doc.code === "payment_pending" ? why(a) : (codes[a.doc.code] ?? "The outcome is not known yet.");
        ui.say(`${what} Your signature is kept ${unkept.has(nameIn(wish)) ? "on this page (keep it open)" : "in this browser"} and sent again in ${seconds} s. It counts only once.${unkept.size ? "" : " You can close this page and come back."}`);
        if (await Promise.race([ui.choose([], [["Ask now", true], ...giveUp]), sleep(seconds * 1000)])) continue;
      }
      keep(Object.assign(wish, { given: true }));
      sent.then((late) => open(late) || running.has(id) || kept(wish)?.credential !== wish.credential || tell(wish, late));
      throw told(gaveUp(wish));
    }
  } finally {
    running.delete(id);
  }
}

// conclude ends a wish whose answer is known.
function conclude(wish, a, ui) {
  drop(wish);
  if (a.ok || (["credential_reused", "idempotency_key_used"].includes(a.doc.code) && a.doc.outcome === "applied")) return done(wish, a, ui);
  throw refused(wish, a);
}

// done shows what came of a wish, and where to go on.
function done(wish, a, ui) {
  const doc = a.doc;
  const slug = cut(doc.member?.slug ?? doc.bid?.member ?? (doc.links?.self && cut(doc.links.self, 999).split("/").pop()) ?? /^api\/ring\/([^/]+)/.exec(wish.path)?.[1], 100);
  const rank = Number(doc.leaderboard_rank) || 0;
  const said = { Bid: `Your bid of $${wish.amount} on ${slug} counts.`, Join: Number(doc.member?.ring_position) ? `Welcome! \u2068${cut(doc.member.name, 80)}\u2069 is member ${Number(doc.member.ring_position)}.` : `Welcome! ${slug} is in the ring.`, Change: "Changed.", Own: "Your account is now the owner.", Leave: `${slug} has left the ring. You can return within seven days, on its page.`, Return: `${slug} is back in the ring.` };
  const words = (said[wish.what] ?? "It is done.") + (rank ? ` It is at rank ${rank}.` : "") + (a.ok ? "" : " It was done when the page last asked.");
  ui.say(words);
  const paid = pays(wish), page = new URL(slug ? `members/${encodeURIComponent(slug)}` : "", root), lines = [], at = el("span", {}, String(rank || "…"));
  const receipt = el("div", { className: "receipt" }), form = ui.said.closest("form");
  if (paid) {
    // The page is the success: nothing on it pays again.
    if (form) {
      succeed(form, true);
      if (wish.what === "Join") document.title = words;
      receipt.append(el(form.closest("dialog") ? "h3" : "h1", {}, words));
    }
    if (Number(doc.member?.ring_position)) lines.push(line("Member", `No. ${Number(doc.member.ring_position)}`));
    lines.push(line("Rank", at));
    lines.push(line("Paid", `$${wish.amount}`));
    const reference = referenceOf(a.headers.get("Payment-Receipt"));
    if (reference) lines.push(line("Receipt", /^https:\/\/[\w.-]+$/.test(wish.explorer) ? el("a", { href: `${wish.explorer}/tx/${reference}`, rel: "noopener" }, reference) : reference));
    const index = /\/log\/proof\/(\d{1,16})$/.exec(doc.links?.proof)?.[1];
    if (index) lines.push(line("Proof", el("a", { href: new URL("log/proof/" + index, root), download: "" }, "File to keep")));
    receipt.append(el("dl", { className: "terms" }, ...lines));
  }
  const go = el("p", { className: "row" });
  if (slug) go.append(el("a", { className: "button", href: page }, { Bid: "View the member's page", Leave: "View its page, with the way back" }[wish.what] ?? "View your page"));
  if (slug && paid && navigator.share) go.append(el("button", { type: "button", className: "plain", onclick: () => navigator.share({ text: words, url: String(page) }).catch(() => {}) }, "Share"));
  go.append(el("a", { href: new URL(paid ? "leaderboard" : "", root) }, paid ? "See the leaderboard" : "Back to the ring"));
  receipt.append(go);
  if (slug && wish.what === "Join") receipt.append(el("p", {}, el("a", { href: page + "#told" }, "Get told when you are outbid"), ", by a feed or a webhook."));
  ui.show(receipt);
  if (paid) ui.step.focus();
  if (slug && paid)
    showIt(page, Number(a.headers.get("Webring-Seq")), receipt, at).catch(() => receipt.append(el("p", {}, el("a", { href: page + "#show" }, "Show it: a card to post, a button, a snippet"))));
}

// succeed leaves of a page, or of a dialog, only the step of a form, or shows all of it again.
function succeed(form, yes) {
  form.classList.toggle("paid", yes);
  for (let e = form.querySelector(".step"); !e.matches("main, dialog"); e = e.parentElement)
    for (const other of e.parentElement.children) if (other !== e) other.hidden = yes && !other.matches(".said, .resumed, [method=dialog]");
}

// showIt adds to a receipt what the member's page has for its owner to show: the rank, a card,
// words, a button and a snippet. A node that has not come to a ledger position shows the member as it
// was, or none, and is asked again.
async function showIt(page, seq, receipt, rank) {
  for (let turn = 1; ; turn++) {
    const r = await fetch(page, { headers: { Accept: "text/html" }, credentials: "omit", cache: "reload" }); // replaces the copy that the browser has
    const shown = r.headers.get("Webring-Seq");
    if (r.ok && Number(shown) >= seq) {
      const drawn = new DOMParser().parseFromString(await r.text(), "text/html"), part = drawn.getElementById("show");
      rank.textContent = drawn.querySelector("[data-live=rank]").parentElement.textContent.trim();
      for (const name of ["href", "src", "srcset"])
        for (const e of part.querySelectorAll(`[${name}]`)) {
          const [address, ...rest] = e.getAttribute(name).split(" ");
          const url = new URL(address, page);
          if (name !== "href") url.search = "at=" + shown; // past the picture that the browser may have of before
          e.setAttribute(name, [url, ...rest].join(" "));
        }
      receipt.append(el("h2", {}, "Show it"), ...document.importNode(part, true).childNodes);
      added(receipt);
      document.dispatchEvent(new Event("paid"));
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
    const { reference } = unpacked(receipt);
    return /^0x[0-9a-f]{64}$/.test(reference) ? reference : "";
  } catch {
    return "";
  }
}

// --- What people see

// UI says what happens in two elements: a line that is read out, and what can be done.
class UI {
  constructor(said, step) {
    Object.assign(this, { said, step, extra: "", beside: [] });
  }
  say(words, wrong = false) {
    const text = this.extra + words;
    if (this.said.textContent !== text) this.said.textContent = text;
    this.said.classList.toggle("wrong", wrong);
    if (wrong) this.show();
  }
  fail(e) {
    this.say(e?.told ? e.message : "This page failed (" + cut(e?.message || e) + "). Your signature is kept until the ring answers: reload the page to continue.", true);
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
      const buttons = answers.map(([words, value], i) => el("button", { type: "button", className: i || value === null ? "plain" : "", onclick: () => {
        this.show();
        choice(value);
      } }, words));
      this.show(...nodes, el("p", { className: "row" }, ...buttons));
      if (nodes.length) this.step.focus();
    });
  }
  // unlessCancelled waits for a wallet, which may never answer. The nodes beside are shown meanwhile.
  async unlessCancelled(asked) {
    const cancelled = this.choose(this.beside, [["Stop waiting for the wallet", null]]).then(() => { throw told("Nothing was sent or charged. If the wallet still asks, decline there.", stopped); });
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
      if (e.taken) {
        ui.show(onward(form, e.taken));
        form.elements.amount?.dispatchEvent(new Event("input", { bubbles: true }));
      }
      if (document.activeElement === document.body || document.activeElement === ui.step) button.focus();
    }
    busy = false;
    button.removeAttribute("aria-disabled");
  });
}

// Links to bid open the one dialog, where there is a wallet. What the amount does there is said
// by page.js, as it is when another one is typed.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-bid]"), dialog = document.querySelector("dialog.pay-dialog");
  if (!link || !dialog || !wallets().length || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const form = dialog.querySelector("form.wallet");
  if (!form.querySelector("[aria-disabled]")) {
    form.dataset.fixed = JSON.stringify({ member: link.dataset.bid });
    const row = link.closest("tr");
    form.dataset.name = row?.querySelector("bdi")?.textContent ?? "";
    dialog.querySelector("[data-bid-name]").textContent = form.dataset.name || link.dataset.bid;
    dialog.querySelector("[data-bid-host]").textContent = row?.querySelector(".host")?.textContent ?? "";
    form.elements.amount.value = link.dataset.amount;
    form.querySelector("[data-asks]").dataset.asks = link.pathname;
    Object.assign(saidOf(form), { drawn: "" }).replaceChildren();
    saidOf(form).dataset.amount = "";
    form.elements.amount.dispatchEvent(new Event("input", { bubbles: true }));
    form.querySelector(".said").textContent = "";
    form.querySelector(".step").replaceChildren();
    succeed(form, false);
  }
  dialog.showModal();
});

// panel is a part of the page for a wish that another page has begun.
function panel(wish, heading) {
  const said = el("p", { className: "said" }), step = el("div", { className: "step", tabIndex: -1 }), head = el("h2", {}, heading);
  said.setAttribute("role", "status");
  const part = el("section", { className: "panel wallet resumed" }, head, said, step);
  part.setAttribute("aria-label", titled(wish));
  document.querySelector("main").prepend(part);
  return { ui: new UI(said, step), head };
}

// tell says what became of a wish that was given up.
function tell(wish, a) {
  const { ui } = panel(wish, titled(wish));
  ui.note("You stopped waiting for this.");
  try {
    conclude(wish, a, ui);
  } catch (e) {
    ui.fail(e);
  }
}

// again goes on with a wish that is kept, and asks once about one that was given up or is old.
async function again(wish) {
  const ended = (wish.given || sinceEnd(wish) > oldest) && (await over(wish));
  if (wish.given && !ended) return;
  if (ended) {
    const a = await send(wish, { Authorization: wish.credential });
    if (!open(a)) return tell(wish, a);
    if (sinceEnd(wish) > oldest) drop(wish);
    if (wish.given) return;
  }
  const { ui, head } = panel(wish, titled(wish) + " is not answered yet");
  try {
    await settle(wish, ui);
  } catch (e) {
    ui.fail(e);
  }
  head.textContent = titled(wish);
}

// resume goes on with what an earlier page has begun.
function resume() {
  for (const one of allKept().slice(0, most)) {
    if (running.has(idOf(one))) continue;
    alone(one, true, async () => {
      const wish = kept(one);
      if (wish) await again(wish);
    });
  }
}
addEventListener("pageshow", (event) => { if (event.persisted) resume(); });
resume();
