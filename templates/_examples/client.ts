// npm install mppx@0.11.0 viem@2.57.13
import { Mppx, tempo } from "mppx/client";
import { privateKeyToAccount } from "viem/accounts";

const ring = "https://ring.example";
const { KEY, NAME, URL: url } = process.env; // KEY is the private key of the paying account

const wallet = tempo({ account: privateKeyToAccount(KEY as `0x${string}`) });
const { fetch } = Mppx.create({ methods: [wallet], polyfill: false });

// call sends a request, and pays or proves when it is asked to. If no answer comes, call again
// with the same key and body: you are charged once.
async function call(method: string, path: string, body?: object, key: string = crypto.randomUUID()) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const answer = await fetch(ring + path, { method, headers, body: body && JSON.stringify(body) });
  const document: any = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status} ${document.code}: ${document.detail}`);
  return document;
}

const { leaderboard } = await call("GET", "/api/leaderboard?limit=3");
console.log("leads:", leaderboard[0]?.name);

const { member } = await call("POST", "/api/register", { name: NAME, url, kind: "agent" });
console.log("joined:", member.slug);

const bid = await call("POST", "/api/bid", { member: member.slug, amount: "1.00" });
console.log("rank:", bid.leaderboard_rank);

const changed = await call("PATCH", `/api/ring/${member.slug}`, { description: "Now with tides." });
console.log("described:", changed.member.description);
