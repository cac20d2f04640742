// Starts the binary with a synthetic ring, for the programs that look at one by hand.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

// started calls work with the address of an origin with so many made-up members, and the slug
// of one that was removed. "hard" is a ring of twelve with names that pages have to bear.
export async function started(webring, ring, work) {
  const data = mkdtempSync(join(tmpdir(), "ring-"));
  const port = await new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
  });
  const base = `http://127.0.0.1:${port}`;
  const members = ring === "hard" ? 12 : Number(ring);
  // One more than asked for: it is removed again, and its page says so.
  if (members > 0)
    execFileSync(webring, ["seed", "--members", members + (ring === "hard" ? 0 : 1), "--data", data, "--seed", "4", ...(ring === "hard" ? ["--hard-names"] : [])]);
  const origin = spawn(webring, ["serve", "--dev", "--scorer", ring === "3" ? "fixed:34" : "fixed:72", "--listen", `127.0.0.1:${port}`, "--base-url", base, "--data", data,
    "--rate-limit", "0", "--admin-listen", "", "--report", "mailto:abuse@operator.example"], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((done) => origin.on("exit", done));
  try {
    for (;;) {
      if (origin.exitCode !== null) throw new Error(`${webring} ended with ${origin.exitCode}`);
      if (await fetch(base + "/api").then((r) => r.ok, () => false)) break;
      await new Promise((go) => setTimeout(go, 100));
    }
    let removed;
    if (members > 0 && ring !== "hard") {
      const { members: last } = await (await fetch(`${base}/api/ring?limit=1&offset=${members}`)).json();
      removed = last[0].slug;
      execFileSync(webring, ["members", "--data", data, "remove", removed, "--reason", "to be looked at"]);
    }
    await work(base, removed);
  } finally {
    origin.kill("SIGTERM");
    await ended;
    rmSync(data, { recursive: true, force: true });
  }
}
