// Keeps the numbers of an open page true, and copies. What is in elements with data-live
// is exchanged, and only when the page that the ring sends now has the same ones, and
// nothing in them has the focus. Whatever would move things is left to the
// reader: a line that has its place says that there is something new.
(() => {
  const every = 30_000;
  const cells = (doc) => new Map([...doc.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e]));
  const refresh = async () => {
    if (document.hidden) return;
    for (const part of document.querySelectorAll("[data-asks]")) if (part.dataset.asks && part.offsetParent) buys(part).catch(() => {});
    if (!cells(document).size) return;
    const answer = await fetch(location.href, { credentials: "omit", cache: "no-cache", headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = cells(new DOMParser().parseFromString(await answer.text(), "text/html"));
    const shown = cells(document);
    const same = [...shown.keys()].join() === [...fresh.keys()].join();
    const notice = document.querySelector("[data-notice]");
    if (notice) notice.textContent = same ? "" : notice.dataset.notice;
    if (!same) return;
    for (const [key, cell] of shown) {
      const now = fresh.get(key);
      if (cell.innerHTML !== now.innerHTML && !cell.contains(document.activeElement)) cell.replaceChildren(...document.importNode(now, true).childNodes);
    }
  };
  const quietly = () => refresh().catch(() => {});
  setInterval(quietly, every);
  document.addEventListener("visibilitychange", quietly);
  document.addEventListener("paid", quietly); // by pay.js
})();

// The theme that the reader chooses is kept, and applied to the open pages. The head of each
// page applies it before the page is drawn.
const theme = document.getElementById("theme");
const themed = (name) => {
  document.documentElement.dataset.theme = theme.value = name ?? "";
  for (const meta of document.querySelectorAll("meta[name=theme-color]")) {
    meta.dataset.system ??= meta.content;
    meta.content = name ? getComputedStyle(document.body).backgroundColor : meta.dataset.system;
  }
};
if (theme) {
  try { themed(localStorage.theme); } catch { /* the browser keeps nothing */ }
  theme.addEventListener("change", () => {
    themed(theme.value);
    try { localStorage.theme = theme.value; } catch { /* the choice holds for this page */ }
  });
  addEventListener("storage", (event) => event.key === "theme" && themed(event.newValue));
}

// Every command and snippet gets a button that copies it, also what another script adds and
// tells of by the event "added".
const copies = (part) => {
  for (const pre of part.querySelectorAll("pre:not([data-nocopy], .copied > pre)")) {
    const box = document.createElement("div"), button = document.createElement("button");
    Object.assign(box, { className: "copied" });
    Object.assign(button, { className: "copy plain", type: "button", textContent: "Copy", ariaLive: "polite" });
    pre.replaceWith(box);
    box.append(pre, button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        // Without leave or TLS the words are selected, for the keyboard to copy.
        getSelection().selectAllChildren(pre);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2500);
    });
  }
};
for (const part of document.querySelectorAll("[data-buys]")) part.drawn = part.innerHTML; // before anything in it changes
copies(document);
document.addEventListener("added", (event) => copies(event.target));

// What an amount buys is said by the page that the ring draws for that amount: its parts with
// data-buys take the place of those around the field. For what is no amount that the ring takes,
// they say what is, and offer no way to pay. data-amount is the amount of which they speak. As other
// numbers they are refreshed, since others may bid. pay.js waits for the event "bought".
let asked = 0;
// People write 2,50 and $2.50, too, as pay.js knows.
const dollars = (text) => text.replace(/^\s*\$?\s*(\d{1,7})(?:[.,](\d{1,2}))?\s*$/, (_, whole, cents) => whole + (cents ? "." + cents : ""));
const buys = async (part) => {
  const turn = ++asked, choice = part.querySelector("input[type=radio]:checked")?.value ?? "own", field = part.querySelector("input[type=text]");
  const text = choice === "own" ? dollars(field.value) : choice === "none" ? "0" : choice;
  const amount = /^\d{1,7}(\.\d{1,2})?$/.test(text) ? Number(text) : NaN;
  await new Promise((go) => setTimeout(go, 250));
  if (turn !== asked) return;
  try {
    const answer = await fetch(`${part.dataset.asks}?amount=${(amount || 0).toFixed(2)}`, { credentials: "omit", cache: "no-cache", headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok || turn !== asked) return;
    const known = Number(page.querySelector("[data-buys][data-amount]")?.dataset.amount) === amount;
    for (const old of (part.closest("dialog, section") ?? part).querySelectorAll("[data-buys]")) {
      const now = document.importNode(page.querySelector(`[data-buys=${old.dataset.buys}]`), true), drawn = known ? now.innerHTML : "";
      const open = [...old.querySelectorAll("details")].map((e) => e.open);
      now.querySelectorAll("details").forEach((e, i) => (e.open = open[i]));
      if ("not" in old.dataset) Object.assign(old.dataset, known ? now.dataset : { amount: "" });
      old.hidden = !known && !("not" in old.dataset);
      if (known && old.drawn === drawn) continue; // nothing is announced anew, and nobody loses the focus
      old.drawn = drawn;
      if (known) old.replaceChildren(...now.childNodes);
      else if ("not" in old.dataset) old.textContent = text && now.dataset.not;
      copies(old);
    }
  } finally {
    if (turn === asked) document.dispatchEvent(new Event("bought"));
  }
};
document.addEventListener("input", (event) => {
  const part = event.target.closest("[data-asks]");
  if (part) buys(part).catch(() => {});
});

// What is offered for a draft that was checked counts for that draft alone.
const checked = document.querySelector("[data-offered]");
const differs = () => {
  const changed = [...document.querySelector("form.draft").elements].some((e) => (e.type === "radio" ? e.checked !== e.defaultChecked : e.value !== (e.defaultValue ?? e.value)));
  checked.hidden = changed;
  checked.nextElementSibling.hidden = !changed;
};
if (checked) {
  document.querySelector("form.draft").addEventListener("input", differs);
  addEventListener("pageshow", differs); // a browser may have filled the form in again
}

// A category takes its form as it is typed.
document.getElementById("category")?.addEventListener("input", ({ target }) => {
  target.value = target.value.normalize("NFKD").toLowerCase().replace(/[\u0300-\u036f]/g, "").replace(/[^a-z0-9]+/g, "-").replace(/^-/, "");
});

// An address may bring a draft that the ring does not know, as the QR code may that a phone reads. It
// is checked at once, as if it had been typed. A page that a link leads to waits for its reader.
if (!document.referrer) document.querySelector("[data-unknown] form")?.requestSubmit();

// In the drawing the first tap on a mark says whose it is, and a second one follows it.
let tapped;
document.addEventListener("click", (event) => {
  const mark = event.target.closest(".mark");
  if (mark && mark !== tapped && event.pointerType === "touch") {
    event.preventDefault();
    mark.focus();
  }
  tapped = mark;
});

// What a link leads to is opened.
const leadsTo = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", leadsTo);
leadsTo();

// The script that draws what changes in the ring comes late: who leaves at once needs neither it nor
// its stream. The slider of a moment needs it now.
const drawing = document.querySelector(".picture[data-script]");
const script = () => document.head.append(Object.assign(document.createElement("script"), { src: drawing.dataset.script }));
if (drawing && "past" in drawing.dataset) script();
else if (drawing) addEventListener("load", () => setTimeout(script, 2000 + 2000 * Math.random()));
