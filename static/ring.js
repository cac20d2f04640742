// Draws what happens in the ring while its picture is open: a join or a bid grows a ray, and a change
// of rank moves the numerals. One event stream has it for all pages; the first event is the whole
// drawing, and the others are what has changed. On the page of a moment a slider goes through all
// moments, which the origin replays from the log. Sizes and angles are those of templates/picture.go.
(() => {
  const figure = document.querySelector(".picture[data-seq]"), svg = figure.querySelector("svg");
  const root = new URL("..", document.currentScript.src);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const radius = 128, foot = 135, shortest = 5, longest = 52, linked = 40;

  // What is drawn: the ring that the stream tells of, and a shape for each of its marks.
  let ring, shapes = new Map(), numerals = [], drawn = false;

  const element = (name, attributes, ...inside) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...inside);
    return e;
  };
  const at = (angle, distance) => [200 + distance * Math.cos(angle), 200 + distance * Math.sin(angle)].map((n) => n.toFixed(1));
  const line = (angle, from, to) => `M${at(angle, from).join(" ")}L${at(angle, to).join(" ")}`;
  const outline = (kind, middle, size) =>
    kind === "mcp" ? `M${middle}m-${size * 0.9}-${size * 0.9}h${size * 1.8}v${size * 1.8}h-${size * 1.8}z`
    : kind === "website" ? `M${middle}m0-${size * 1.2}l${size * 1.2} ${size * 1.2}l-${size * 1.2} ${size * 1.2}l-${size * 1.2}-${size * 1.2}z`
    : `M${middle}m-${size} 0a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0-${2 * size} 0z`;

  // Moves angles aside until no two are nearer than apart, if there is room.
  const spreadOut = (angles, apart) => {
    const order = angles.map((_, i) => i).sort((a, b) => angles[a] - angles[b]);
    for (let turns = 40 * order.length, moved = true; moved && turns; turns--) {
      moved = false;
      order.forEach((one, i) => {
        const other = order[(i + 1) % order.length];
        const d = angles[other] - angles[one] + (i === order.length - 1 ? 2 * Math.PI : 0);
        if (one === other || d >= apart - 1e-6) return;
        angles[one] -= (apart - d) / 2;
        angles[other] += (apart - d) / 2;
        moved = true;
      });
    }
    return angles;
  };

  // Where everything is: of each mark the angle and how long its ray is, and the numerals.
  const layout = ({ members, first, marks }) => {
    const all = [...marks.values()].sort((a, b) => b.counts - a.counts || a.position - b.position);
    const rays = all.slice(0, 40), most = Math.max(100, ...rays.map((m) => m.counts));
    const length = (cents) => shortest + (longest - shortest) * Math.min(1, Math.log1p(cents / 100) / Math.log1p(most / 100));
    const angle = (m) => (2 * Math.PI * (m.position - 1)) / Math.max(members, 1) - Math.PI / 2;
    const angles = rays.map(angle);
    if (members > linked) spreadOut(angles, 5 / foot);
    const places = new Map(all.map((m, i) => {
      const bright = i < 40 && m.counts > 0 ? length(m.counts) : 0;
      return [m.slug, { angle: angles[i] ?? angle(m), bright, end: i < 40 ? Math.max(bright, length(m.paid)) : 0 }];
    }));
    const top = first.map((slug) => places.get(slug)).filter(Boolean);
    const turned = spreadOut(top.map((p) => p.angle), 27 / (foot + shortest + 15));
    return { ranks: new Map(all.map((m, i) => [m.slug, i + 1])), places, numerals: top.map((p, i) => ({ angle: turned[i], distance: foot + p.end + 15, from: p.angle })) };
  };

  // A member of the past that may not be named has a number for a slug, after a space.
  const page = (slug) => new URL(slug.startsWith(" ") ? "ring" : `members/${slug}`, root);
  const shape = (m) => {
    const parts = ["ray pale", "ray", "dot", "hit"].map((c) => element("path", { class: c }));
    const host = element("tspan", { x: 200, dy: 20 }, m.host.slice(0, 26));
    const link = element("a", { class: `mark ${m.kind}`, href: page(m.slug), tabindex: -1 },
      element("title", {}, `${m.name}, ${m.host}`), ...parts, element("text", { class: "tip", x: 200, y: 256 }, [...m.name].slice(0, 20).join(""), host));
    return { kind: m.kind, link, parts };
  };
  const place = ({ kind, parts: [pale, ray, dot, hit] }, p) => {
    pale.setAttribute("d", p.end - p.bright > 0.5 ? line(p.angle, foot + p.bright, foot + p.end) : "");
    ray.setAttribute("d", p.bright > 0.5 ? line(p.angle, foot, foot + p.bright) : "");
    dot.setAttribute("d", outline(kind, at(p.angle, radius).join(" "), ring.members > linked ? 3 : 5.2));
    hit.setAttribute("d", line(p.angle, radius - 8, foot + p.end));
  };
  const placeNumeral = ([lead, circle, text], p, end) => {
    const [x, y] = at(p.angle, p.distance);
    lead.setAttribute("d", Math.abs(p.angle - p.from) > 0.02 ? `M${at(p.from, end)}L${x} ${y}` : "");
    circle.setAttribute("cx", x);
    circle.setAttribute("cy", y);
    text.setAttribute("x", x);
    text.setAttribute("y", Number(y) + 5.6);
  };

  // The first change takes the place of what the server has drawn, but for the crowd of a large ring.
  const adopt = (places, now) => {
    svg.querySelectorAll(".mark, g:not(.crowd), .numeral, .lead, .vacant").forEach((e) => e.remove());
    numerals = [0, 1, 2].map((i) => {
      const c = i ? "numeral" : "numeral first";
      return [element("path", { class: "lead" }), element("circle", { class: c, r: 12 }), element("text", { class: c }, i + 1)];
    });
    for (const m of ring.marks.values()) add(m, places.get(m.slug));
    now.forEach((p, i) => svg.append(...numerals[i]));
    drawn = true;
  };
  const add = (m, p) => {
    const s = shape(m);
    s.now = p;
    shapes.set(m.slug, s);
    svg.querySelector(".arc, .lead, .numeral, .count").before(s.link);
  };

  const between = (a, b, t) => Object.fromEntries(Object.keys(b).map((k) => [k, (a?.[k] ?? b[k]) * (1 - t) + b[k] * t]));
  let frame;
  const move = (next, seconds) => {
    const began = performance.now(), places = new Map([...shapes].map(([slug, s]) => [slug, s.now])), marks = numerals.map((n) => n.now);
    cancelAnimationFrame(frame);
    const step = (now) => {
      const part = seconds && !still.matches ? Math.min(1, Math.max(0, now - began) / (1000 * seconds)) : 1, t = 1 - (1 - part) ** 3;
      for (const [slug, s] of shapes) place(s, (s.now = between(places.get(slug), next.places.get(slug), t)));
      next.numerals.forEach((p, i) => {
        const n = numerals[i];
        if (!n[0].isConnected) svg.append(...n);
        placeNumeral(n, (n.now = between(marks[i], p, t)), p.distance - 13);
      });
      if (part < 1) frame = requestAnimationFrame(step);
    };
    step(began);
  };

  // Draws a ring, from the one before.
  const draw = (next, seconds = 1.2) => {
    const before = ring && layout(ring), then = layout(next), old = ring;
    ring = next;
    if (!drawn) {
      if (old) ring = old;
      adopt((before ?? then).places, (before ?? then).numerals);
      numerals.forEach((n, i) => (n.now = (before ?? then).numerals[i]));
      ring = next;
    }
    for (const [slug, s] of shapes) {
      if (next.marks.has(slug)) continue;
      s.link.remove();
      shapes.delete(slug);
    }
    for (const m of next.marks.values()) {
      const p = then.places.get(m.slug);
      if (!shapes.has(m.slug)) add(m, { angle: p.angle, bright: 0, end: 0 });
    }
    numerals.slice(then.numerals.length).flat().forEach((e) => e.remove());
    move(then, seconds);
    svg.querySelector(".count").textContent = next.members.toLocaleString("en").replaceAll(",", "\u202f");
    svg.querySelector(".around").textContent = next.members === 1 ? "member" : "members";
    firsts(next);
    return then;
  };

  // The list of the first three. It stays while somebody is in it.
  const firsts = ({ first, marks }) => {
    const list = figure.querySelector(".firsts");
    if (!list || list.contains(document.activeElement)) return;
    const tops = first.map((slug) => list.querySelector(`[href$="/${slug}"]`)?.getBoundingClientRect().top);
    list.replaceChildren(...first.map((slug) => {
      const m = marks.get(slug), item = document.createElement("li"), link = document.createElement("a");
      const name = document.createElement("bdi"), host = document.createElement("small");
      name.textContent = m.name;
      Object.assign(host, { className: "host", textContent: m.host.length > 28 ? m.host.slice(0, 27) + "…" : m.host });
      link.href = page(slug);
      link.append(name);
      item.append(link, " ", host);
      return item;
    }));
    if (still.matches) return;
    [...list.children].forEach((item, i) => {
      const from = tops[i] === undefined ? 20 : tops[i] - item.querySelector("a").getBoundingClientRect().top;
      if (from) item.animate([{ transform: `translateY(${from}px)` }, { transform: "none" }], { duration: 900, easing: "ease-out" });
    });
  };

  // Says what has happened, in a line that has its place.
  const dollars = (cents) => `$${(cents / 100).toFixed(cents % 100 ? 2 : 0)}`;
  const tell = (old, next, { ranks }) => {
    const words = [];
    for (const m of next.marks.values()) {
      const was = old.marks.get(m.slug), name = document.createElement("bdi");
      name.textContent = m.name;
      if (!was && m.position > old.members) words.push([name, ` joined as member ${m.position}.`]);
      else if (was && m.paid > was.paid) words.push([name, ` got ${dollars(m.paid - was.paid)}${ranks.get(m.slug) <= 40 ? ` and is number ${ranks.get(m.slug)}` : ""}.`]);
    }
    if (words.length) figure.querySelector(".lately").replaceChildren(...words.at(-1));
  };

  const take = (d) => {
    const marks = d.whole ? new Map() : new Map(ring.marks);
    for (const m of d.marks) marks.set(m.slug, m);
    for (const slug of d.gone ?? []) marks.delete(slug);
    const next = { members: d.members, first: d.first.filter((slug) => marks.has(slug)), marks }, old = ring;
    // The picture of the page shows the first ring already.
    if (!old && String(d.seq) === figure.dataset.seq) ring = next;
    else if (!old || !same(old, next)) {
      const then = draw(next);
      if (old) tell(old, next, then);
    }
  };
  const same = (a, b) => JSON.stringify([a.members, a.first, [...a.marks]]) === JSON.stringify([b.members, b.first, [...b.marks]]);

  // Pages that nobody sees are not connected. Where there is no stream, the page asks for the
  // leaderboard from time to time.
  let stream, timer;
  const cents = (usd) => Math.round(Number(usd) * 100);
  const ask = async () => {
    const answer = await fetch(new URL("api/leaderboard?limit=40", root), { credentials: "omit" });
    if (!answer.ok) return;
    const { total, leaderboard } = await answer.json();
    const marks = leaderboard.map((m) => ({ slug: m.slug, name: m.name, host: new URL(m.url).host.replace(/^www\./, ""), kind: m.kind, position: m.ring_position, paid: cents(m.paid_total_usd), counts: cents(m.effective_bid_usd) }));
    take({ seq: answer.headers.get("Webring-Seq"), whole: true, members: total, first: marks.slice(0, 3).map((m) => m.slug), marks });
  };
  const connect = () => {
    clearTimeout(timer);
    stream?.close();
    stream = undefined;
    if (document.hidden) return;
    stream = new EventSource(new URL("ring/live", root));
    stream.addEventListener("message", ({ data }) => take(JSON.parse(data)));
    stream.addEventListener("error", () => {
      const mine = stream;
      if (mine.readyState !== EventSource.CLOSED) return; // it tries again by itself
      timer = setTimeout(() => ask().catch(() => {}).then(() => mine === stream && connect()), 30_000 + 10_000 * Math.random());
    });
  };

  // The slider of the page of a moment. The words beside the picture follow when it rests.
  const replay = async () => {
    const answer = await fetch(new URL("ring/moments", root), { credentials: "omit" });
    if (!answer.ok) return;
    const { members: named, moments } = await answer.json();
    const all = moments.map(({ seq, at, members, marks }) => {
      const known = marks.map(([i, position, paid, counts]) => {
        const { slug, name, url, kind } = named[i];
        return [slug || ` ${i}`, { slug: slug || ` ${i}`, name, host: url.replace(/^https?:\/\/(www\.)?|\/$/g, ""), kind, position, paid, counts }];
      });
      return { seq, at, members, first: known.slice(0, 3).map(([slug]) => slug), marks: new Map(known) };
    });
    const make = (name, attributes) => Object.assign(document.createElement(name), attributes);
    const box = make("div", { className: "replay" }), play = make("button", { type: "button", className: "plain", textContent: "Play" });
    const slider = make("input", { type: "range", min: 0, max: all.length - 1, ariaLabel: "Moment" }), says = make("output", {});
    let beat, rest;
    const show = (i, seconds) => {
      const { seq, at, members } = all[i];
      draw(all[i], seconds);
      slider.value = i;
      slider.ariaValueText = says.textContent = `${new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" })}, ${members} ${members === 1 ? "member" : "members"}`;
      if (String(seq) === figure.dataset.seq) return;
      figure.dataset.seq = seq;
      clearTimeout(rest);
      rest = setTimeout(() => words(seq).catch(() => {}), 400);
    };
    const words = async (seq) => {
      const address = new URL(`ring?at=${seq}`, root);
      history.replaceState(null, "", address);
      const page = await fetch(address, { credentials: "omit", headers: { Accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await page.text(), "text/html");
      if (!page.ok || String(seq) !== figure.dataset.seq) return;
      for (const old of document.querySelectorAll("[data-then]")) {
        const now = fresh.querySelector(`[data-then=${old.dataset.then}]`);
        if (now && !old.contains(document.activeElement)) old.replaceChildren(...document.importNode(now, true).childNodes);
      }
      document.title = fresh.title;
    };
    const stop = () => {
      clearInterval(beat);
      beat = undefined;
      play.textContent = "Play";
    };
    play.addEventListener("click", () => {
      if (beat) return stop();
      play.textContent = "Pause";
      let i = Number(slider.value);
      if (i === all.length - 1) show((i = 0), 0);
      beat = setInterval(() => (i < all.length - 1 ? show(++i, 0.4) : stop()), 450);
    });
    slider.addEventListener("input", () => {
      stop();
      show(Number(slider.value), 0.3);
    });
    box.append(play, slider, says);
    figure.querySelector("svg").after(box);
    show(Math.max(0, all.findIndex((m) => String(m.seq) === figure.dataset.seq)), 0);
  };

  if ("past" in figure.dataset) replay().catch(() => {});
  else {
    document.addEventListener("visibilitychange", connect);
    addEventListener("pagehide", () => stream?.close());
    connect();
  }
})();
