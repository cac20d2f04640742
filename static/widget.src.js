// <webring-online from="slug">: neighbours in the ring.
(() => {
  // The ring is where this file comes from. A module has no currentScript, and only there
  // import.meta is no error: the stack begins with the address of the file. A copy that a
  // page has of its own, whatever its name, comes from no ring.
  const file = /^http.*\/(?=widget(-[0-9a-f]{16})?\.js\b)/.exec(/http\S+/.exec(Error().stack))?.[0];
  const own = !file?.startsWith(location.origin + "/") && file;
  // Where the author's links lead.
  const led = (e) => [...e.querySelectorAll("a")].map((a) => /^http.*?\/(?=(prev|random|next)(\?|$))/.exec(a.href)?.[0]).find(Boolean);
  const web = (u) => /^https?:/i.test(u);
  const make = (name, props, ...kids) => {
    const e = Object.assign(document.createElement(name), props);
    e.append(...kids);
    return e;
  };
  const labels = new Map();
  const css = `:host{display:block;container-type:inline-size;contain-intrinsic-inline-size:20rem;font-size:.9375rem;line-height:1.6}
:host([theme]){--_t:light-dark(#211d16,#ece5d6);--_b:light-dark(#fffdf8,#1d1b15);--_l:light-dark(#a8321a,#ff8f6b)}
:host([theme=light]){color-scheme:light}
:host([theme=dark]){color-scheme:dark}
nav{display:grid;grid:auto/minmax(0,1fr) auto;gap:.4rem 1.25rem;font:var(--webring-font,inherit);color:var(--webring-text,var(--_t,inherit));background:var(--webring-background,var(--_b,none));border:1px solid var(--webring-border,color-mix(in srgb,currentColor 35%,transparent));padding:.6rem 1rem;overflow-wrap:normal}
nav *{font:inherit;margin:0;padding:0;min-inline-size:0}
header{display:flex;gap:.5em;align-items:center;max-inline-size:100%}
header a{font-weight:600}
[part=mark]{flex:none;margin:.25em;inline-size:.9em;block-size:.9em;border:2px solid;border-radius:50%}
[part=mark]::after{content:"";display:block;margin:-.35em auto;inline-size:0;border:.25em solid;border-radius:50%}
ul,slot{display:grid;gap:.25rem 1.25rem;grid-column:1/-1;list-style:none}
li{position:relative}
a,::slotted(a){display:inline-flex;max-inline-size:100%;min-inline-size:24px;min-block-size:24px;vertical-align:top;color:var(--webring-link,var(--_l,var(--_a,inherit)))}
bdi{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
i{flex:none;white-space:pre}
[part~=prev]::before{content:"←\\a0"/""}
[part~=next]::after{content:"\\a0→"/""}
:host(:dir(rtl)) [part~=prev]::before,:host(:dir(rtl)) [part~=next]::after{scale:-1 1}
a:hover{text-decoration-thickness:2px}
:focus-visible,::slotted(:focus-visible){outline:3px solid;outline-offset:1px}
@container(min-width:28rem){ul{grid:auto/1fr auto 1fr}slot{display:flex;justify-content:space-between}li:last-child{text-align:end}}
:host([compact]) :is(nav,ul,slot){display:flex;flex-wrap:wrap;border:0;padding:0}
:host([compact][theme]) nav{padding:.15rem .5rem}
:host([compact]) li a>*{position:absolute;inline-size:1px;clip-path:inset(50%)}
[hidden]{display:none!important}`;

  class Webring extends HTMLElement {
    static observedAttributes = ["from", "api", "level", "join"];

    connectedCallback() {
      try {
        // The root may be there already, closed or declared in the page, and each document has
        // style sheets of its own.
        this.root ??= this.attachInternals().shadowRoot ?? this.attachShadow({ mode: "open" });
        const sheet = new this.ownerDocument.defaultView.CSSStyleSheet();
        sheet.replaceSync(css);
        this.root.adoptedStyleSheets = [sheet];
      } catch {}
      this.attributeChangedCallback();
    }

    disconnectedCallback() {
      this.near?.disconnect();
    }

    attributeChangedCallback() {
      if (!this.root) return;
      const api = this.getAttribute("api"), from = this.getAttribute("from");
      const slot = make("slot"), query = from ? "?from=" + encodeURIComponent(from) : "";
      const base = api ? new URL(api + "/", document.baseURI).href.replace(/\/+$/, "/") : led(this) ?? own;
      this.near?.disconnect();
      if (!base) {
        slot.onslotchange = () => led(this) && this.attributeChangedCallback();
        return this.root.replaceChildren(slot);
      }
      const list = this.list((to) => base + to + query);
      this.show({ name: "Webring" }, base, base, 0, slot, list);
      (slot.onslotchange = () => (list.hidden = !slot.hidden && slot.assignedElements().length > 0))();
      const near = (this.near = new IntersectionObserver(async ([e]) => {
        if (!e.isIntersecting) return;
        near.disconnect();
        try {
          const answer = await fetch(base + "api/widget" + query, {
            credentials: "omit",
            referrerPolicy: "strict-origin-when-cross-origin",
            signal: AbortSignal.timeout(9000),
          });
          const { ring, member, links, ...names } = await answer.json();
          if (near === this.near && ["prev", "random", "next", "ring"].every((to) => web(links[to])) && (slot.hidden = true))
            this.show(ring, base, links.ring, member?.ring_position, slot, this.list((to) => links[to], names));
        } catch {}
      }, { rootMargin: "300px" }));
      near.observe(this);
    }

    list(href, names) {
      return make("ul", { part: "list" }, ...["Previous", "Random", "Next"].map((word) => {
        const to = word.replace("ious", "").toLowerCase(), name = names?.[to]?.name;
        const a = make("a", { href: href(to), part: "link " + to }, word);
        if (name) a.append(make("i", {}, ": "), make("bdi", {}, name));
        a.title = a.textContent;
        return make("li", {}, a);
      }));
    }

    show({ name, count }, base, href, place, ...rest) {
      const level = this.getAttribute("level"), mark = make("span", { part: "mark" }), where = make("p", {}, make("bdi", { part: "place" }, place ? place + " of " + count : ""));
      if (place) mark.style.rotate = (place - 1) / count + "turn";
      if (this.hasAttribute("join")) where.append(" ", make("a", { href: base + "join", part: "link join" }, "Join"));
      let label = name, other;
      for (let n = 2; (other = labels.get(label)) && other != this && other.isConnected; n++) label = name + " " + n;
      labels.set(label, this);
      this.root.replaceChildren(make("nav", { ariaLabel: label, part: "nav", lang: "en" },
        make("header", {}, mark, make(/^[1-6]$/.test(level) ? "h" + level : "p", {}, make("a", { href, part: "ring" }, make("bdi", {}, name)))), where, ...rest));
      this.tint();
    }

    // Links take the colour that the page gives to the author's, which stay behind them.
    tint() {
      const a = this.querySelector("a");
      if (a) this.root.firstChild.style?.setProperty("--_a", getComputedStyle(a).color);
    }
  }
  // A page that changes its theme has its links in another colour.
  const tint = () => labels.forEach((e) => (e.tint(), setTimeout(() => e.tint(), 500)));
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", tint);
  new MutationObserver(tint).observe(document.documentElement, { attributes: true });
  customElements.get("webring-online") || customElements.define("webring-online", Webring);
})();
