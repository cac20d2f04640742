"use strict";
(() => {
  // node_modules/@noble/hashes/utils.js
  /*! noble-hashes - MIT License (c) 2022 Paul Miller (paulmillr.com) */
  function isBytes(a) {
    return a instanceof Uint8Array || ArrayBuffer.isView(a) && a.constructor.name === "Uint8Array";
  }
  function abytes(value, length, title = "") {
    const bytes = isBytes(value);
    const len = value?.length;
    const needsLen = length !== void 0;
    if (!bytes || needsLen && len !== length) {
      const prefix = title && `"${title}" `;
      const ofLen = needsLen ? ` of length ${length}` : "";
      const got = bytes ? `length=${len}` : `type=${typeof value}`;
      throw new Error(prefix + "expected Uint8Array" + ofLen + ", got " + got);
    }
    return value;
  }
  function aexists(instance, checkFinished = true) {
    if (instance.destroyed)
      throw new Error("Hash instance has been destroyed");
    if (checkFinished && instance.finished)
      throw new Error("Hash#digest() has already been called");
  }
  function aoutput(out, instance) {
    abytes(out, void 0, "digestInto() output");
    const min = instance.outputLen;
    if (out.length < min) {
      throw new Error('"digestInto() output" expected to be of length >=' + min);
    }
  }
  function clean(...arrays) {
    for (let i = 0; i < arrays.length; i++) {
      arrays[i].fill(0);
    }
  }
  function createView(arr) {
    return new DataView(arr.buffer, arr.byteOffset, arr.byteLength);
  }
  function rotr(word, shift) {
    return word << 32 - shift | word >>> shift;
  }
  function createHasher(hashCons, info = {}) {
    const hashC = (msg, opts) => hashCons(opts).update(msg).digest();
    const tmp = hashCons(void 0);
    hashC.outputLen = tmp.outputLen;
    hashC.blockLen = tmp.blockLen;
    hashC.create = (opts) => hashCons(opts);
    Object.assign(hashC, info);
    return Object.freeze(hashC);
  }
  var oidNist = (suffix) => ({
    oid: Uint8Array.from([6, 9, 96, 134, 72, 1, 101, 3, 4, 2, suffix])
  });

  // node_modules/@noble/hashes/_md.js
  function Chi(a, b, c) {
    return a & b ^ ~a & c;
  }
  function Maj(a, b, c) {
    return a & b ^ a & c ^ b & c;
  }
  var HashMD = class {
    blockLen;
    outputLen;
    padOffset;
    isLE;
    // For partial updates less than block size
    buffer;
    view;
    finished = false;
    length = 0;
    pos = 0;
    destroyed = false;
    constructor(blockLen, outputLen, padOffset, isLE) {
      this.blockLen = blockLen;
      this.outputLen = outputLen;
      this.padOffset = padOffset;
      this.isLE = isLE;
      this.buffer = new Uint8Array(blockLen);
      this.view = createView(this.buffer);
    }
    update(data) {
      aexists(this);
      abytes(data);
      const { view, buffer, blockLen } = this;
      const len = data.length;
      for (let pos = 0; pos < len; ) {
        const take = Math.min(blockLen - this.pos, len - pos);
        if (take === blockLen) {
          const dataView = createView(data);
          for (; blockLen <= len - pos; pos += blockLen)
            this.process(dataView, pos);
          continue;
        }
        buffer.set(data.subarray(pos, pos + take), this.pos);
        this.pos += take;
        pos += take;
        if (this.pos === blockLen) {
          this.process(view, 0);
          this.pos = 0;
        }
      }
      this.length += data.length;
      this.roundClean();
      return this;
    }
    digestInto(out) {
      aexists(this);
      aoutput(out, this);
      this.finished = true;
      const { buffer, view, blockLen, isLE } = this;
      let { pos } = this;
      buffer[pos++] = 128;
      clean(this.buffer.subarray(pos));
      if (this.padOffset > blockLen - pos) {
        this.process(view, 0);
        pos = 0;
      }
      for (let i = pos; i < blockLen; i++)
        buffer[i] = 0;
      view.setBigUint64(blockLen - 8, BigInt(this.length * 8), isLE);
      this.process(view, 0);
      const oview = createView(out);
      const len = this.outputLen;
      if (len % 4)
        throw new Error("_sha2: outputLen must be aligned to 32bit");
      const outLen = len / 4;
      const state = this.get();
      if (outLen > state.length)
        throw new Error("_sha2: outputLen bigger than state");
      for (let i = 0; i < outLen; i++)
        oview.setUint32(4 * i, state[i], isLE);
    }
    digest() {
      const { buffer, outputLen } = this;
      this.digestInto(buffer);
      const res = buffer.slice(0, outputLen);
      this.destroy();
      return res;
    }
    _cloneInto(to) {
      to ||= new this.constructor();
      to.set(...this.get());
      const { blockLen, buffer, length, finished, destroyed, pos } = this;
      to.destroyed = destroyed;
      to.finished = finished;
      to.length = length;
      to.pos = pos;
      if (length % blockLen)
        to.buffer.set(buffer);
      return to;
    }
    clone() {
      return this._cloneInto();
    }
  };
  var SHA256_IV = /* @__PURE__ */ Uint32Array.from([
    1779033703,
    3144134277,
    1013904242,
    2773480762,
    1359893119,
    2600822924,
    528734635,
    1541459225
  ]);

  // node_modules/@noble/hashes/sha2.js
  var SHA256_K = /* @__PURE__ */ Uint32Array.from([
    1116352408,
    1899447441,
    3049323471,
    3921009573,
    961987163,
    1508970993,
    2453635748,
    2870763221,
    3624381080,
    310598401,
    607225278,
    1426881987,
    1925078388,
    2162078206,
    2614888103,
    3248222580,
    3835390401,
    4022224774,
    264347078,
    604807628,
    770255983,
    1249150122,
    1555081692,
    1996064986,
    2554220882,
    2821834349,
    2952996808,
    3210313671,
    3336571891,
    3584528711,
    113926993,
    338241895,
    666307205,
    773529912,
    1294757372,
    1396182291,
    1695183700,
    1986661051,
    2177026350,
    2456956037,
    2730485921,
    2820302411,
    3259730800,
    3345764771,
    3516065817,
    3600352804,
    4094571909,
    275423344,
    430227734,
    506948616,
    659060556,
    883997877,
    958139571,
    1322822218,
    1537002063,
    1747873779,
    1955562222,
    2024104815,
    2227730452,
    2361852424,
    2428436474,
    2756734187,
    3204031479,
    3329325298
  ]);
  var SHA256_W = /* @__PURE__ */ new Uint32Array(64);
  var SHA2_32B = class extends HashMD {
    constructor(outputLen) {
      super(64, outputLen, 8, false);
    }
    get() {
      const { A, B, C, D, E, F, G, H } = this;
      return [A, B, C, D, E, F, G, H];
    }
    // prettier-ignore
    set(A, B, C, D, E, F, G, H) {
      this.A = A | 0;
      this.B = B | 0;
      this.C = C | 0;
      this.D = D | 0;
      this.E = E | 0;
      this.F = F | 0;
      this.G = G | 0;
      this.H = H | 0;
    }
    process(view, offset) {
      for (let i = 0; i < 16; i++, offset += 4)
        SHA256_W[i] = view.getUint32(offset, false);
      for (let i = 16; i < 64; i++) {
        const W15 = SHA256_W[i - 15];
        const W2 = SHA256_W[i - 2];
        const s0 = rotr(W15, 7) ^ rotr(W15, 18) ^ W15 >>> 3;
        const s1 = rotr(W2, 17) ^ rotr(W2, 19) ^ W2 >>> 10;
        SHA256_W[i] = s1 + SHA256_W[i - 7] + s0 + SHA256_W[i - 16] | 0;
      }
      let { A, B, C, D, E, F, G, H } = this;
      for (let i = 0; i < 64; i++) {
        const sigma1 = rotr(E, 6) ^ rotr(E, 11) ^ rotr(E, 25);
        const T1 = H + sigma1 + Chi(E, F, G) + SHA256_K[i] + SHA256_W[i] | 0;
        const sigma0 = rotr(A, 2) ^ rotr(A, 13) ^ rotr(A, 22);
        const T2 = sigma0 + Maj(A, B, C) | 0;
        H = G;
        G = F;
        F = E;
        E = D + T1 | 0;
        D = C;
        C = B;
        B = A;
        A = T1 + T2 | 0;
      }
      A = A + this.A | 0;
      B = B + this.B | 0;
      C = C + this.C | 0;
      D = D + this.D | 0;
      E = E + this.E | 0;
      F = F + this.F | 0;
      G = G + this.G | 0;
      H = H + this.H | 0;
      this.set(A, B, C, D, E, F, G, H);
    }
    roundClean() {
      clean(SHA256_W);
    }
    destroy() {
      this.set(0, 0, 0, 0, 0, 0, 0, 0);
      clean(this.buffer);
    }
  };
  var _SHA256 = class extends SHA2_32B {
    // We cannot use array here since array allows indexing by variable
    // which means optimizer/compiler cannot use registers.
    A = SHA256_IV[0] | 0;
    B = SHA256_IV[1] | 0;
    C = SHA256_IV[2] | 0;
    D = SHA256_IV[3] | 0;
    E = SHA256_IV[4] | 0;
    F = SHA256_IV[5] | 0;
    G = SHA256_IV[6] | 0;
    H = SHA256_IV[7] | 0;
    constructor() {
      super(32);
    }
  };
  var sha256 = /* @__PURE__ */ createHasher(
    () => new _SHA256(),
    /* @__PURE__ */ oidNist(1)
  );

  // sha256.js
  function createHash() {
    const hash = sha256.create();
    return {
      update(data) {
        hash.update(typeof data === "string" ? new TextEncoder().encode(data) : data);
        return this;
      },
      digest: () => hash.digest()
    };
  }

  // tree.js
  var LEAF = Uint8Array.of(0);
  var NODE = Uint8Array.of(1);
  var HASH = 32;
  function sha2562(...parts) {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  }
  var node = (...both) => sha2562(NODE, ...both);
  var split = (n) => 2 ** ((n - 1).toString(2).length - 1);
  var base64 = (hash) => btoa(String.fromCharCode(...hash));
  function levels(size) {
    const bits = size.toString(2);
    return [...bits].flatMap((bit, i) => bit === "1" ? [bits.length - 1 - i] : []);
  }
  var Tree = class _Tree {
    size = 0;
    /** @type {Uint8Array[]} the roots of full subtrees, by level */
    #full = [];
    /**
     * @param {number} size
     * @param {Uint8Array} edge of edgeLength(size) bytes: the roots of the full subtrees, the largest first
     */
    static of(size, edge) {
      const tree = new _Tree();
      tree.size = size;
      levels(size).forEach((level, i) => {
        tree.#full[level] = edge.slice(HASH * i, HASH * (i + 1));
      });
      return tree;
    }
    clone() {
      const tree = new _Tree();
      tree.size = this.size;
      tree.#full = [...this.#full];
      return tree;
    }
    /** Adds the next event. */
    add(event) {
      let hash = sha2562(LEAF, event);
      let level = 0;
      for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2) hash = node(this.#full[level++], hash);
      this.#full[level] = hash;
      this.size++;
    }
    /** The tree hash, in base64. */
    root() {
      const full = levels(this.size).map((level) => this.#full[level]);
      const root = full.length === 0 ? sha2562() : full.reduceRight((right, left) => node(left, right));
      return base64(root);
    }
  };

  // tiles.js
  var WIDTH = 256;
  var HEIGHT = 8;
  var AHEAD = 3;
  var MOST_BUNDLE = WIDTH * (2 + (8 << 10));
  function tilePath(kind, n, width) {
    const groups = [];
    for (let rest = n; rest > 0 || groups.length === 0; rest = Math.floor(rest / 1e3)) groups.unshift(String(rest % 1e3).padStart(3, "0"));
    const last = groups.pop();
    return `/log/${kind}/${groups.map((group) => `x${group}/`).join("")}${last}${width < WIDTH ? `.p/${width}` : ""}`;
  }
  function entries(bundle, width) {
    const found = [];
    let at = 0;
    while (at + 2 <= bundle.length) {
      const end = at + 2 + bundle[at] * 256 + bundle[at + 1];
      found.push(bundle.subarray(at + 2, end));
      at = end;
    }
    if (at !== bundle.length || found.length !== width) throw new Error("events malformed, or too few");
    return found;
  }
  async function* records(get2, from, to) {
    const fetched = (n) => {
      const width = Math.min(WIDTH, to - WIDTH * n);
      const read = async (kind) => entries(await get2(tilePath(kind, n, width), MOST_BUNDLE), width);
      const both = Promise.all([read("tile/entries"), read("texts")]);
      both.catch(() => {
      });
      return both;
    };
    const line = [];
    let asked = Math.floor(from / WIDTH);
    for (let at = from; at < to; at += WIDTH - at % WIDTH) {
      for (; line.length < AHEAD && WIDTH * asked < to; asked++) line.push(fetched(asked));
      const [events, texts] = (await /** @type {ReturnType<typeof fetched>} */
      line.shift()).map((all) => all.slice(at % WIDTH));
      yield { events, range: ranged(events, texts) };
    }
  }
  function ranged(events, texts) {
    const parts = events.flatMap((event, i) => [event, texts[i]]);
    const range = new Uint8Array(parts.reduce((size, { length }) => size + 4 + length, 0));
    const view = new DataView(range.buffer);
    let at = 0;
    for (const part of parts) {
      view.setUint32(at, part.length);
      range.set(part, at + 4);
      at += 4 + part.length;
    }
    return range;
  }
  var Hashes = class {
    #size;
    #get;
    /** @type {Map<string, Promise<Uint8Array>>} */
    #tiles = /* @__PURE__ */ new Map();
    /**
     * @param {number} size of the tree
     * @param {Get} get
     */
    constructor(size, get2) {
      this.#size = size;
      this.#get = get2;
    }
    /** @type {(level: number, n: number) => Promise<Uint8Array>} */
    #tile(level, n) {
      const width = Math.min(WIDTH, Math.floor(this.#size / WIDTH ** level) - WIDTH * n);
      const path = tilePath(`tile/${level}`, n, width);
      const held = this.#tiles.get(path);
      if (held) return held;
      const tile = this.#get(path, HASH * width).then((bytes) => {
        if (bytes.length !== HASH * width) throw new Error("a tile of the log is malformed");
        return bytes;
      });
      this.#tiles.set(path, tile);
      return tile;
    }
    /**
     * The hash over entries from lo up to hi, a subtree that begins at lo.
     *
     * @type {(lo: number, hi: number) => Promise<Uint8Array>}
     */
    async of(lo, hi) {
      const level = (hi - lo).toString(2).length - 1;
      if (2 ** level < hi - lo) {
        const middle = lo + 2 ** level;
        return node(...await Promise.all([this.of(lo, middle), this.of(middle, hi)]));
      }
      const row = Math.floor(level / HEIGHT);
      const at = lo / WIDTH ** row;
      const tile = await this.#tile(row, Math.floor(at / WIDTH));
      let hashes = Array.from({ length: 2 ** (level % HEIGHT) }, (_, i) => tile.subarray(HASH * (at % WIDTH + i)).subarray(0, HASH));
      while (hashes.length > 1) hashes = hashes.flatMap((left, i) => i % 2 === 0 ? [node(left, hashes[i + 1])] : []);
      return hashes[0];
    }
    /**
     * The consistency proof from the first m entries to all of them (RFC 6962, 2.1.2).
     *
     * @type {(m: number, lo?: number, hi?: number) => Promise<Uint8Array[]>}
     */
    async prove(m, lo = 0, hi = this.#size) {
      if (m === hi) return lo === 0 ? [] : [await this.of(lo, hi)];
      const middle = lo + split(hi - lo);
      const [inner, outer] = await Promise.all(
        m <= middle ? [this.prove(m, lo, middle), this.of(middle, hi)] : [this.prove(m, middle, hi), this.of(lo, middle)]
      );
      return [...inner, outer];
    }
  };
  function proven(root, proof, m, hi, lo = 0) {
    const [last] = proof.slice(-1);
    if (m === hi) return lo === 0 ? [root, root] : [last, last];
    const middle = lo + split(hi - lo);
    const [old, all] = m <= middle ? proven(root, proof.slice(0, -1), m, middle, lo) : proven(root, proof.slice(0, -1), m, hi, middle);
    return m <= middle ? [old, node(all, last)] : [node(last, old), node(last, all)];
  }

  // contradiction.js
  var Contradiction = class extends Error {
    /** @param {string} evidence the file that proves it */
    constructor(evidence) {
      super("this ring has signed two histories: it shows another log than the one that it signed before");
      this.evidence = evidence;
    }
  };
  async function continues(key2, earlier, later, get2) {
    if (earlier.size === 0 || earlier.size === later.size && earlier.root === later.root) return;
    const words = new Set(key2.split(/[\s,]+/).filter(Boolean));
    const lines = ["webring/contradiction/v1", ...[...words].map((word) => `key ${word}`)];
    if (earlier.size < later.size) {
      const hashes = new Hashes(later.size, get2);
      const proof = await hashes.prove(earlier.size);
      const [before, all] = proven(await hashes.of(0, earlier.size), proof, earlier.size, later.size).map(base64);
      if (all !== later.root) throw new Error("the tiles of the log do not lead to the signed root");
      if (before === earlier.root) return;
      lines.push(`root ${before}`, ...proof.map(base64));
    }
    throw new Contradiction([...lines, "", earlier.signed, later.signed].join("\n"));
  }

  // wasi.js
  var SUCCESS = 0;
  var BAD_DESCRIPTOR = 8;
  var MILLISECOND = 1000000n;
  function imports(memory, say) {
    const view = () => new DataView(memory());
    const none = () => SUCCESS;
    const noFile = () => BAD_DESCRIPTOR;
    let now = 1640995200000000000n;
    const nothing = (count2, size) => {
      view().setUint32(count2, 0, true);
      view().setUint32(size, 0, true);
      return SUCCESS;
    };
    return {
      sched_yield: none,
      args_get: none,
      args_sizes_get: nothing,
      environ_get: none,
      environ_sizes_get: nothing,
      fd_close: noFile,
      fd_fdstat_get: noFile,
      fd_fdstat_set_flags: noFile,
      fd_prestat_get: noFile,
      fd_prestat_dir_name: noFile,
      /** @param {number} code */
      proc_exit(code) {
        throw new Error(`the guest ended with status ${code}`);
      },
      /** @type {(clock: number, precision: bigint, at: number) => number} */
      clock_time_get(_clock, _precision, at) {
        now += MILLISECOND;
        view().setBigUint64(at, now, true);
        return SUCCESS;
      },
      /** @type {(at: number, size: number) => number} */
      random_get(at, size) {
        const most = 65536;
        for (let end = at + size; at < end; at += most) {
          crypto.getRandomValues(new Uint8Array(memory(), at, Math.min(most, end - at)));
        }
        return SUCCESS;
      },
      /** @type {(descriptor: number, vectors: number, count: number, written: number) => number} */
      fd_write(_descriptor, vectors, count2, written) {
        const v = view();
        let size = 0;
        for (let i = 0; i < count2; i++) {
          const [at, length] = [v.getUint32(vectors + 8 * i, true), v.getUint32(vectors + 8 * i + 4, true)];
          say(new TextDecoder().decode(new Uint8Array(memory(), at, length)));
          size += length;
        }
        v.setUint32(written, size, true);
        return SUCCESS;
      },
      /**
       * Says at once that all that was waited for has happened.
       *
       * @type {(subscriptions: number, events: number, count: number, written: number) => number}
       */
      poll_oneoff(subscriptions, events, count2, written) {
        const v = view();
        for (let i = 0; i < count2; i++) {
          const [from, to] = [subscriptions + 48 * i, events + 32 * i];
          v.setBigUint64(to, v.getBigUint64(from, true), true);
          v.setUint16(to + 8, SUCCESS, true);
          v.setUint8(to + 10, v.getUint8(from + 8));
        }
        v.setUint32(written, count2, true);
        return SUCCESS;
      }
    };
  }

  // guest.js
  var VERSION = 9;
  var op = { version: 0, open: 1, apply: 2, advance: 3, rewind: 4, serve: 5, baseURL: 6, digest: 7, load: 12, piece: 13, loaded: 14 };
  var CAPACITY = 50000000n;
  var VERIFY = 1n;
  var SMALL = 65536;
  var REPLY_HEADER = 25;
  var RESPONSE_HEADER = 52;
  var BACKSTEP = 5;
  var HIGH = 2 ** 32;
  var encoder = new TextEncoder();
  var decoder = new TextDecoder();
  var Guest = class {
    /** The records applied, and the clock in seconds since 1970. */
    seq = 0;
    second = 0;
    #said = "";
    #random = new BigUint64Array(64);
    #drawn = 64;
    /** @param {WebAssembly.Module} module */
    constructor(module) {
      const wasi = imports(
        () => this.memory.buffer,
        (text) => {
          this.#said = (this.#said + text).slice(0, 1024);
        }
      );
      const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
      this.memory = /** @type {WebAssembly.Memory} */
      exports.memory;
      this.#input = /** @type {(size: number) => number} */
      exports.input;
      this.#call = /** @type {(op: number, arg: bigint, size: number) => bigint} */
      exports.call;
      exports._initialize();
      this.#small = this.#input(SMALL) >>> 0;
      this.#bytes = new Uint8Array(this.memory.buffer);
      this.#view = new DataView(this.memory.buffer);
      const version = this.#text(op.version, 4).getUint32(0, true);
      if (version === VERSION) this.#perform(op.open, CAPACITY, 0);
      else throw new Error(`the core's entry has version ${version}, this Worker knows ${VERSION}`);
    }
    #input;
    #call;
    #small;
    #bytes;
    #view;
    /**
     * Performs an operation on size bytes that lie in the guest. It throws if the guest has
     * trapped, after which it must not be used, or if it refuses.
     *
     * @param {number} operation
     * @param {bigint} arg
     * @param {number} size
     * @returns {{at: number, length: number}} where the reply's rest lies
     */
    #perform(operation, arg, size) {
      let where;
      try {
        where = this.#call(operation, arg, size);
      } catch (error) {
        throw new Error(`the core has failed: ${error}; it said: ${this.#said}`);
      }
      const length = Number(where & 0xffffffffn);
      const at = Number(where >> 32n & 0xffffffffn);
      if (this.#view.buffer !== this.memory.buffer) {
        this.#bytes = new Uint8Array(this.memory.buffer);
        this.#view = new DataView(this.memory.buffer);
      }
      this.seq = this.#number(at + 1);
      this.second = this.#number(at + 9);
      const rest = { at: at + REPLY_HEADER, length: length - REPLY_HEADER };
      if (this.#bytes[at] !== 0) throw new Error(`refused: ${this.#string(rest.at, Math.min(rest.length, 200))}`);
      return rest;
    }
    /**
     * @param {number} operation
     * @param {number} size
     */
    #text(operation, size) {
      const { at, length } = this.#perform(operation, 0n, 0);
      if (size !== length) throw new Error(`${length} bytes come from operation ${operation}`);
      return new DataView(this.memory.buffer, at, length);
    }
    /** @param {number} at of an i64 */
    #number(at) {
      return this.#view.getInt32(at + 4, true) * HIGH + this.#view.getUint32(at, true);
    }
    /** @type {(at: number, length: number) => string} */
    #string(at, length) {
      return length === 0 ? "" : decoder.decode(this.#bytes.subarray(at, at + length));
    }
    /** Begins to load a snapshot of size bytes. */
    load(size) {
      this.#perform(op.load, BigInt(size), 0);
    }
    /** Takes the next bytes of the snapshot. */
    piece(bytes) {
      for (let at = 0; at < bytes.length; at += SMALL) {
        const part = bytes.subarray(at, at + SMALL);
        this.#bytes.set(part, this.#small);
        this.#perform(op.piece, 0n, part.length);
      }
    }
    /** Starts from the snapshot, all of which was taken. */
    loaded() {
      this.#perform(op.loaded, 0n, 0);
    }
    /** Folds a range of records, with texts that their events commit to. */
    apply(range) {
      const at = range.length > SMALL ? this.#input(range.length) >>> 0 : this.#small;
      new Uint8Array(this.memory.buffer, at, range.length).set(range);
      this.#perform(op.apply, VERIFY, range.length);
    }
    /** Brings the clock to the present, or leaves it where it is, a little ahead. */
    tick(second) {
      if (second > this.second) this.#perform(op.advance, BigInt(second), 0);
      else if (second < this.second - BACKSTEP) this.#perform(op.rewind, BigInt(second), 0);
    }
    /** Gives the digest of the state, in hexadecimal. */
    digest() {
      const v = this.#text(op.digest, 16);
      return v.getBigUint64(0).toString(16).padStart(16, "0") + v.getBigUint64(8).toString(16).padStart(16, "0");
    }
    baseURL() {
      const { at, length } = this.#perform(op.baseURL, 0n, 0);
      return this.#string(at, length);
    }
    /**
     * Answers a GET for a target, which has no more than SMALL / 3 characters.
     *
     * @param {string} target
     * @returns {Answer}
     */
    serve(target) {
      if (this.#drawn === this.#random.length) {
        crypto.getRandomValues(this.#random);
        this.#drawn = 0;
      }
      const into = this.#bytes.subarray(this.#small, this.#small + SMALL);
      const { written } = encoder.encodeInto(target, into);
      const { at, length } = this.#perform(op.serve, this.#random[this.#drawn++], written);
      const v = this.#view;
      const word = (n) => v.getUint32(at + n, true);
      const texts = at + RESPONSE_HEADER;
      const [body, within, location2, next, prev] = [word(28), word(32), word(36), word(40), word(44)];
      const after = texts + (within < body ? body : body + location2);
      if (after + next + prev > at + length) throw new Error("the core's answer is none");
      return {
        status: v.getUint16(at, true),
        media: v.getUint8(at + 2),
        validity: v.getUint8(at + 3),
        seq: this.seq,
        second: this.second,
        since: this.#number(at + 4),
        until: this.#number(at + 12),
        from: word(20),
        to: word(24),
        unknown: (word(48) & 1) === 1,
        location: this.#string(texts + within, location2),
        next: this.#string(after, next),
        prev: this.#string(after + next, prev),
        body: this.#bytes.slice(texts, texts + body)
      };
    }
  };

  // note.js
  var ED25519 = 1;
  var fromBase64 = (text) => {
    try {
      const bytes = atob(text);
      return Uint8Array.from(btoa(bytes) === text ? bytes : "", (c) => c.charCodeAt(0));
    } catch {
      return new Uint8Array();
    }
  };
  var toHex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  async function readKeys(text) {
    const words = (text ?? "").split(/[\s,]+/).filter(Boolean);
    if (words.length === 0) throw new Error("no verifier key is given");
    const keys = words.map((word) => readKey(word, ED25519));
    await Promise.all(keys.map(({ raw }) => imported(raw)));
    return keys;
  }
  function readKey(word, type) {
    const parts = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(word);
    const bytes = fromBase64(parts?.[3] ?? "");
    if (!parts || bytes.length !== 33 || bytes[0] !== type) throw new Error(`${word} is no verifier key`);
    const [, name, hash] = parts;
    const digest = createHash("sha256").update(`${name}
`).update(bytes).digest();
    if (toHex(digest.subarray(0, 4)) !== hash) throw new Error(`the verifier key ${word} is mistyped`);
    return { name, id: `${name}+${hash}`, raw: bytes.slice(1) };
  }
  var imported = (raw) => crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  var verify = async ({ raw }, signature, text) => crypto.subtle.verify({ name: "Ed25519" }, await imported(raw), signature, new TextEncoder().encode(text));
  var open = async (signed2, keys) => parse(await verified(signed2, keys), signed2, keys[0].name);
  function cut(signed2) {
    const end = signed2.lastIndexOf("\n\n") + 1;
    const lines = end > 0 ? signed2.slice(end + 1).split("\n") : [""];
    if (lines.pop() !== "") throw new Error("checkpoint malformed: its last line has no end");
    const signatures = lines.map((line) => {
      const parts = /^\u2014 (\S+) ([A-Za-z0-9+/]+=*)$/.exec(line);
      const bytes = fromBase64(parts?.[2] ?? "");
      if (!parts || bytes.length < 5) throw new Error("checkpoint not signed with the origin's key: malformed");
      return { id: `${parts[1]}+${toHex(bytes.subarray(0, 4))}`, bytes: bytes.slice(4) };
    });
    return { text: signed2.slice(0, end), signatures };
  }
  async function verified(signed2, keys) {
    const { text, signatures } = cut(signed2);
    let known = 0;
    for (const { id, bytes } of signatures) {
      const by = keys.find((key2) => key2.id === id);
      if (by && !await verify(by, bytes, text)) throw new Error("checkpoint not signed with the origin's key: wrong signature");
      if (by) known++;
    }
    if (known === 0) throw new Error("checkpoint not signed with the origin's key");
    return text;
  }
  var NUMBER = "(0|[1-9][0-9]{0,15})";
  var CHECKPOINT = `([!-*,-~]{1,256})
${NUMBER}
([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)
`;
  var FORM = new RegExp(
    `^${CHECKPOINT}time ${NUMBER}
state ([0-9a-f]{32})
core ([0-9a-f]{64}) abi ${NUMBER}
(?:snapshot ([0-9a-f]{64}) bytes ([1-9][0-9]{0,15}) size ${NUMBER}
)?$`
  );
  function parse(text, signed2, name) {
    const fields = FORM.exec(text);
    if (!fields) throw new Error("checkpoint malformed");
    const [, origin, size, root, time, state, core, , digest = "", bytes = "0", at = "0"] = fields;
    if (origin !== name) throw new Error(`checkpoint of another origin: ${origin}`);
    const snapshot = { digest, bytes: Number(bytes), size: Number(at) };
    if (snapshot.size > Number(size)) throw new Error("checkpoint malformed: a snapshot of more events");
    return { signed: signed2, size: Number(size), root, time: Number(time), state, core, snapshot };
  }
  function follows(to, at) {
    const events = `${to.size} events`;
    if (to.size < at.size) throw new Error(`checkpoint of a smaller ledger: ${events} after ${at.size}`);
    if (to.size > at.size) return;
    if (to.root !== at.root) throw new Error(`checkpoint of another history of ${events}`);
    if (to.time < at.time) throw new Error(`checkpoint older than the one at hand: of ${events}`);
    if (to.state !== at.state) throw new Error(`the fold does not reach the signed state of the same ${events}`);
  }

  // records.js
  var MOST_NOTE = 8 << 10;
  function fold(guest, range) {
    try {
      guest.apply(range);
    } catch (error) {
      throw new Error("events that the checkpoint does not sign, or that this core does not fold", { cause: error });
    }
  }
  function checkRoot(tree, to) {
    if (tree.root() !== to.root) throw new Error(`events that the checkpoint does not sign: at ${to.size} the root is another`);
  }
  function checkState(guest, to) {
    if (guest.seq !== to.size || guest.digest() !== to.state) {
      throw new Error(`the fold does not reach the signed state of ${to.size} events`);
    }
  }
  var explain = (error) => error instanceof Error ? error.message + (error.cause ? `: ${explain(error.cause)}` : "") : String(error);
  var sleep = (ms) => new Promise((done) => setTimeout(done, ms));

  // remember.js
  var place = (origin) => `verified ${origin}`;
  function recall(origin) {
    try {
      const { key: key2, signed: signed2 } = JSON.parse(localStorage.getItem(place(origin)) ?? "{}");
      return typeof key2 === "string" && typeof signed2 === "string" ? { key: key2, signed: signed2 } : null;
    } catch {
      return null;
    }
  }
  function remember(origin, last) {
    try {
      localStorage.setItem(place(origin), JSON.stringify(last));
      return true;
    } catch {
      return false;
    }
  }

  // verify.js
  var DOCUMENT = "/api/leaderboard";
  var MOST_MODULE = 16 << 20;
  var MOST_DOCUMENT = 4 << 20;
  var MOST_EVENTS = 2e5;
  var MOST_BYTES = 256 << 20;
  var ATTEMPTS = 20;
  var BEHIND = 5;
  var MINUTES = 5;
  var AROUND = 3;
  var PATIENCE = 6e4;
  var WAITS = 5;
  var MOST_WAIT = 60;
  var sha2563 = (bytes) => toHex(createHash("sha256").update(bytes).digest());
  var count = (n) => n.toLocaleString("en");
  var doubt = false;
  async function get(url, most, cache = "no-store") {
    let response;
    for (let waits = 0; ; waits++) {
      response = await fetch(url, { cache, credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
      if (response.status !== 429 || waits === WAITS) break;
      await sleep(1e3 * Math.min(Number(response.headers.get("Retry-After")) || 1, MOST_WAIT));
    }
    const path = new URL(response.url).pathname;
    if (response.status !== 200 || !response.body) throw new Error(`${path} was answered with status ${response.status}`);
    const parts = [];
    let length = 0;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      length += value.length;
      if (length > most) {
        await reader.cancel();
        throw new Error(`${path} has more than ${count(most)} bytes, which is too much for this page`);
      }
    }
    const bytes = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return { bytes, response };
  }
  async function verify2(root, module, pinned, say) {
    const at = (path) => root + path;
    const text = async (path) => new TextDecoder().decode((await get(at(path), MOST_NOTE)).bytes);
    if (!globalThis.crypto?.subtle) {
      throw new Error(
        "browsers check signatures only on pages that came over https, and this one did not; open it over https, or follow the ring with webring edge"
      );
    }
    say("Fetching the key, the leaderboard and the module.");
    const named = await text("/sync/keys");
    const last = recall(named.split("\n", 1)[0]);
    const words = pinned || (last ? await renewed(last.key, named) : verifiers(named));
    const keys = await readKeys(words).catch((error) => {
      if (error.name === "NotSupportedError")
        throw new Error("this browser does not know the ring's signatures (Ed25519), which newer ones do");
      throw error;
    });
    const before = last && await open(last.signed, await readKeys(`${words} ${last.key}`));
    const core = (await get(module, MOST_MODULE)).bytes;
    const checkpoint = async () => open(await text("/sync/checkpoint"), keys);
    const first = await checkpoint();
    const { shown, seq, date } = await leaderboard(at(DOCUMENT), first, say);
    const to = await signed(first, seq, checkpoint, say);
    const clock = Date.now();
    if (before && before.size > to.size)
      throw new Error(`the ring shows ${count(to.size)} events, and had signed ${count(before.size)} when you verified it last`);
    let bytes = 0;
    const log = async (path, most) => {
      const { bytes: some } = await get(at(path), most, doubt ? "reload" : "default");
      bytes += some.length;
      if (bytes > MOST_BYTES) throw new Error(`the log has more than ${count(MOST_BYTES)} bytes, which is too much for a browser`);
      return some;
    };
    for (const earlier of before ? [before, first] : [first]) await continues(`${words} ${last?.key ?? ""}`, earlier, to, log);
    const digest = sha2563(core);
    if (to.core !== digest) {
      throw new Error(
        `the log is signed by another build of the core (${to.core}) than the one that this site offers (${digest}); while the ring is upgraded that can be so, then try again after it, or use webring edge`
      );
    }
    if (to.size > MOST_EVENTS) {
      throw new Error(
        `the log has ${count(to.size)} events, and a browser replays ${count(MOST_EVENTS)} at most; webring edge has no such bound`
      );
    }
    const guest = new Guest(await WebAssembly.compile(core));
    const tree = new Tree();
    const replay = async (size) => {
      for await (const { events, range } of records(log, tree.size, size)) {
        for (const event of events) tree.add(event);
        fold(guest, range);
        say(`Replayed ${count(tree.size)} of ${count(to.size)} events.`);
      }
    };
    await replay(seq);
    const { answer, difference } = compare(guest, shown, date);
    const members = JSON.parse(new TextDecoder().decode(answer.body)).total;
    await replay(to.size);
    checkRoot(tree, to);
    checkState(guest, to);
    return {
      difference,
      late: late(answer.second * 1e3, to.time, clock),
      seq,
      members: count(members),
      as: new Date(answer.second * 1e3),
      document: sha2563(shown),
      checkpoint: to,
      core: digest,
      key: words,
      before,
      remembered: remember(keys[0].name, { key: words, signed: to.signed })
    };
  }
  var verifiers = (statement) => [...statement.matchAll(/^(?:current|next) (\S+)$/gm)].map((m) => m[1]).join(" ");
  async function renewed(trusted, statement) {
    try {
      return verifiers(await verified(statement, await readKeys(trusted)));
    } catch {
      return trusted;
    }
  }
  async function leaderboard(url, first, say) {
    for (let attempt = 1; ; attempt++) {
      const { bytes: shown, response } = await get(url, MOST_DOCUMENT);
      const seq = Number(response.headers.get("Webring-Seq"));
      if (!Number.isSafeInteger(seq) || seq <= 0) throw new Error("the leaderboard does not say of which position it is");
      const date = Math.floor(Date.parse(response.headers.get("Date") ?? "") / 1e3);
      if (!date) throw new Error("the leaderboard does not say of which time it is");
      if (seq >= first.size) return { shown, seq, date };
      const old = `the leaderboard is of ${count(seq)} events, and ${count(first.size)} were signed before it was asked for`;
      if (attempt === BEHIND) throw new Error(`${old}: it is an old one`);
      say(`Asking again: ${old}.`);
      await sleep(1e3);
    }
  }
  async function signed(to, seq, fetch2, say) {
    for (let attempt = 0; to.size < seq; attempt++) {
      if (attempt === ATTEMPTS)
        throw new Error(`the leaderboard is of ${count(seq)} events, and the newest signature is of ${count(to.size)}`);
      say(`Waiting for a signature of ${count(seq)} events: so far ${count(to.size)} are signed.`);
      await sleep(1e3);
      const next = await fetch2();
      follows(next, to);
      to = next;
    }
    return to;
  }
  function late(as, time, clock) {
    if (Math.max(Math.abs(as - clock), Math.abs(time - clock)) <= MINUTES * 6e4) return "";
    const [shown, newest, now] = [as, time, clock].map((ms) => new Date(ms).toISOString());
    return `This is the leaderboard as it was at ${shown}, and the newest signature is of ${newest}; your clock says ${now}. More than ${MINUTES} minutes lie between. If your clock is wrong, set it and verify again; if it is right, this is not the present leaderboard.`;
  }
  function compare(guest, shown, date) {
    let nearest;
    for (let second = date - AROUND; second <= date + AROUND; second++) {
      guest.tick(second);
      const answer = guest.serve(DOCUMENT);
      const difference = between(shown, answer.body);
      if (!nearest || second === date || difference === "") nearest = { answer, difference };
      if (difference === "") break;
    }
    if (!nearest) throw new Error("nothing was compared");
    return nearest;
  }
  function between(shown, own) {
    const most = Math.max(shown.length, own.length);
    for (let i = 0; i < most; i++) {
      if (shown[i] === own[i]) continue;
      const around = (b) => new TextDecoder().decode(b.subarray(Math.max(0, i - 40), i + 40));
      return `At byte ${count(i)} the ring shows \u201C${around(shown)}\u201D, and the log gives \u201C${around(own)}\u201D.`;
    }
    return "";
  }
  function* terms(found) {
    const { checkpoint: to } = found;
    yield ["Position", `${count(found.seq)} events; signed: ${count(to.size)}, at ${new Date(to.time).toISOString()}`];
    yield ["Members", found.members];
    yield ["As of", found.as.toISOString()];
    yield ["SHA-256 of the leaderboard that is shown", found.document];
    yield ["Root hash of the log", to.root];
    yield ["Digest of the state", to.state];
    yield ["SHA-256 of the core", `${found.core}, as the checkpoint says`];
    yield ["Verifier key", found.key];
    yield ["Your last visit", found.before ? `${count(found.before.size)} events, which this log continues` : "none that this browser knows"];
    yield ["Your next visit", found.remembered ? "checks that its log continues this one" : "knows nothing: this browser does not store it"];
    yield ["What this cannot show", UNKNOWN];
  }
  var UNKNOWN = "This script comes from the ring, and a lying ring can send a lying script: webring verify is a program of your own. The ring can show others another log, unless witnesses cosign it. And its operator can be one of those who pay.";
  function fileOf(text, name, words) {
    const link = document.createElement("a");
    [link.href, link.download, link.textContent] = [URL.createObjectURL(new Blob([text], { type: "text/plain" })), name, words];
    const p = document.createElement("p");
    p.append(link);
    return p;
  }
  var form = (
    /** @type {HTMLFormElement} */
    document.getElementById("verify")
  );
  var [button, key] = [form.querySelector("button"), form.querySelector("input")];
  var [progress, result] = ["progress", "result"].map((id) => (
    /** @type {HTMLElement} */
    document.getElementById(id)
  ));
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!button || !key || button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    result.replaceChildren();
    progress.className = "notice";
    let spoken = 0;
    const say = (words) => {
      if (Date.now() - spoken < 500) return;
      spoken = Date.now();
      progress.textContent = words;
    };
    let [good, verdict] = [false, ""];
    try {
      const { root = "", module = "" } = form.dataset;
      const found = await verify2(new URL(root, location.href).href.replace(/\/$/, ""), module, key.value.trim(), say);
      good = !found.difference && !found.late;
      verdict = "The same to the byte. The log that the key signs gives the leaderboard that is shown.";
      if (found.late) verdict = `Not of now. ${found.late}`;
      if (found.difference) verdict = `Not the same. ${found.difference}`;
      const list = document.createElement("dl");
      list.className = "verified";
      for (const [term, words] of terms(found)) {
        const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
        [dt.textContent, dd.textContent] = [term, words];
        list.append(dt, dd);
      }
      result.append(list);
    } catch (error) {
      doubt = true;
      verdict = `Not verified: ${explain(error)}.`;
      if (error instanceof Contradiction)
        result.append(
          fileOf(error.evidence, "contradiction.txt", "Save the evidence. It stands alone: webring verify --evidence FILE checks it.")
        );
    }
    progress.textContent = verdict;
    progress.className = good ? "panel verdict good" : "panel verdict";
    button.removeAttribute("aria-disabled");
  });
})();
