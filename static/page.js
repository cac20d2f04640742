// Keeps the numbers of an open page true, and copies. What is in elements with data-live
// is exchanged, and only when the page that the ring sends now has the same ones, and
// nothing in them has the focus. Whatever would move things is left to the
// reader: a line that has its place says that there is something new.
(() => {
  const every = 30_000;
  const cells = (doc) => new Map([...doc.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e]));
  const refresh = async () => {
    if (document.hidden || !cells(document).size) return;
    const answer = await fetch(location.href, { credentials: "omit", headers: { Accept: "text/html" } });
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
})();

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
copies(document);
document.addEventListener("added", (event) => copies(event.target));

// What a link leads to is opened.
const leadsTo = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", leadsTo);
leadsTo();
