(()=>{const f=/^http.*\/(?=widget(-[0-9a-f]{16})?\.js\b)/.exec(/http\S+/.exec(Error().stack))?.[0],v=!f?.startsWith(location.origin+"/")&&f,u=r=>[...r.querySelectorAll("a")].map(e=>/^http.*?\/(?=(prev|random|next)(\?|$))/.exec(e.href)?.[0]).find(Boolean),x=r=>/^https?:/i.test(r),i=(r,e,...o)=>{const t=Object.assign(document.createElement(r),e);return t.append(...o),t},g=new Map,k=`:host{display:block;container-type:inline-size;contain-intrinsic-inline-size:20rem;font-size:.9375rem;line-height:1.6}
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
[part~=prev]::before{content:"\u2190\\a0"/""}
[part~=next]::after{content:"\\a0\u2192"/""}
:host(:dir(rtl)) [part~=prev]::before,:host(:dir(rtl)) [part~=next]::after{scale:-1 1}
a:hover{text-decoration-thickness:2px}
:focus-visible,::slotted(:focus-visible){outline:3px solid;outline-offset:1px}
@container(min-width:28rem){ul{grid:auto/1fr auto 1fr}slot{display:flex;justify-content:space-between}li:last-child{text-align:end}}
:host([compact]) :is(nav,ul,slot){display:flex;flex-wrap:wrap;border:0;padding:0}
:host([compact][theme]) nav{padding:.15rem .5rem}
:host([compact]) li a>*{position:absolute;inline-size:1px;clip-path:inset(50%)}
[hidden]{display:none!important}`;class y extends HTMLElement{static observedAttributes=["from","api","level","join"];connectedCallback(){try{this.root??=this.attachInternals().shadowRoot??this.attachShadow({mode:"open"});const e=new this.ownerDocument.defaultView.CSSStyleSheet;e.replaceSync(k),this.root.adoptedStyleSheets=[e]}catch{}this.attributeChangedCallback()}disconnectedCallback(){this.near?.disconnect()}attributeChangedCallback(){if(!this.root)return;const e=this.getAttribute("api"),o=this.getAttribute("from"),t=i("slot"),s=o?"?from="+encodeURIComponent(o):"",n=e?new URL(e+"/",document.baseURI).href.replace(/\/+$/,"/"):u(this)??v;if(this.near?.disconnect(),!n)return t.onslotchange=()=>u(this)&&this.attributeChangedCallback(),this.root.replaceChildren(t);const a=this.list(c=>n+c+s);this.show({name:"Webring"},n,n,0,t,a),(t.onslotchange=()=>a.hidden=!t.hidden&&t.assignedElements().length>0)();const l=this.near=new IntersectionObserver(async([c])=>{if(c.isIntersecting){l.disconnect();try{const m=await fetch(n+"api/widget"+s,{credentials:"omit",referrerPolicy:"strict-origin-when-cross-origin",signal:AbortSignal.timeout(9e3)}),{ring:d,member:p,links:h,...C}=await m.json();l===this.near&&["prev","random","next","ring"].every(b=>x(h[b]))&&(t.hidden=!0)&&this.show(d,n,h.ring,p?.ring_position,t,this.list(b=>h[b],C))}catch{}}},{rootMargin:"300px"});l.observe(this)}list(e,o){return i("ul",{part:"list"},...["Previous","Random","Next"].map(t=>{const s=t.replace("ious","").toLowerCase(),n=o?.[s]?.name,a=i("a",{href:e(s),part:"link "+s},t);return n&&a.append(i("i",{},": "),i("bdi",{},n)),a.title=a.textContent,i("li",{},a)}))}show({name:e,count:o},t,s,n,...a){const l=this.getAttribute("level"),c=i("span",{part:"mark"}),m=i("p",{},i("bdi",{part:"place"},n?n+" of "+o:""));n&&(c.style.rotate=(n-1)/o+"turn"),this.hasAttribute("join")&&m.append(" ",i("a",{href:t+"join",part:"link join"},"Join"));let d=e,p;for(let h=2;(p=g.get(d))&&p!=this&&p.isConnected;h++)d=e+" "+h;g.set(d,this),this.root.replaceChildren(i("nav",{ariaLabel:d,part:"nav",lang:"en"},i("header",{},c,i(/^[1-6]$/.test(l)?"h"+l:"p",{},i("a",{href:s,part:"ring"},i("bdi",{},e)))),m,...a)),this.tint()}tint(){const e=this.querySelector("a");e&&this.root.firstChild.style?.setProperty("--_a",getComputedStyle(e).color)}}const w=()=>g.forEach(r=>(r.tint(),setTimeout(()=>r.tint(),500)));matchMedia("(prefers-color-scheme:dark)").addEventListener("change",w),new MutationObserver(w).observe(document.documentElement,{attributes:!0}),customElements.get("webring-online")||customElements.define("webring-online",y)})();
