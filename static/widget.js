// <webring-online from="slug">: neighbours in the ring.
(() => {
  const own = document.currentScript?.src;
  const web = (u) => /^https?:/i.test(u);
  const make = (name, props, ...kids) => {
    const e = Object.assign(document.createElement(name), props);
    e.append(...kids);
    return e;
  };
  const css = `:host{display:block;color-scheme:light dark;min-block-size:4rem}
:host([theme=light]){color-scheme:light}
:host([theme=dark]){color-scheme:dark}
nav{font:var(--webring-font,.9375rem/1.6 system-ui,sans-serif);color:var(--webring-text,light-dark(#211d16,#ece5d6));background:var(--webring-background,light-dark(#fffdf8,#1d1b15));border:1px solid var(--webring-border,#8a8170);padding:.25rem .75rem;position:relative}
nav *{font:inherit;margin:0;padding:0}
nav>:first-child{padding-inline-end:5rem}
ul{display:grid;grid:auto/1fr 1fr;gap:.5rem;list-style:none}
li{min-width:0}
li:first-child{position:absolute;inset:.25rem .75rem auto auto}
li:last-child{text-align:end}
a,::slotted(a){display:inline-block;max-width:100%;min-height:24px;color:var(--webring-link,light-dark(#a8321a,#ff8f6b));overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
a:focus-visible,::slotted(a:focus-visible){outline:3px solid;outline-offset:-3px}
[hidden]{display:none}`;
  let sheet;

  class Webring extends HTMLElement {
    static observedAttributes = ["from", "api", "level"];

    connectedCallback() {
      if (!this.shadowRoot) {
        if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(css);
        this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
      }
      this.start();
    }

    disconnectedCallback() {
      this.near?.disconnect();
    }

    attributeChangedCallback() {
      if (this.shadowRoot) this.start();
    }

    start() {
      const api = this.getAttribute("api"), from = this.getAttribute("from");
      const base = new URL(api ? api + "/" : ".", (!api && own) || document.baseURI).href.replace(/\/+$/, "/");
      const query = from ? "?from=" + encodeURIComponent(from) : "";
      const slot = make("slot"), list = this.list((to) => base + to + query);
      (slot.onslotchange = () => (list.hidden = slot.assignedElements().length > 0))();
      this.show("Webring", base, slot, list);
      slot.onslotchange();
      this.near?.disconnect();
      const near = (this.near = new IntersectionObserver(async ([e]) => {
        if (!e.isIntersecting) return;
        near.disconnect();
        try {
          const answer = await fetch(base + "api/widget" + query, {
            credentials: "omit",
            referrerPolicy: "strict-origin-when-cross-origin",
            signal: AbortSignal.timeout(9000),
          });
          const { ring, links, ...names } = await answer.json();
          if (near === this.near && ["prev", "random", "next", "ring"].every((to) => web(links[to])))
            this.show(ring.name, links.ring, this.list((to) => links[to], names));
        } catch {}
      }, { rootMargin: "300px" }));
      near.observe(this);
    }

    list(href, names) {
      return make("ul", { part: "list" }, ...["Random", "Previous", "Next"].map((word) => {
        const to = word.replace("ious", "").toLowerCase(), name = names?.[to]?.name;
        const title = name ? word + ": " + name : word;
        return make("li", {}, make("a", { href: href(to), part: "link " + to, title }, title));
      }));
    }

    show(name, href, ...rest) {
      const level = this.getAttribute("level");
      const head = make(/^[1-6]$/.test(level) ? "h" + level : "p", {}, make("a", { href, part: "ring" }, name));
      this.shadowRoot.replaceChildren(make("nav", { ariaLabel: name, part: "nav" }, head, ...rest));
    }
  }
  customElements.get("webring-online") || customElements.define("webring-online", Webring);
})();
