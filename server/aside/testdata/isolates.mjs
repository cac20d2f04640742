// Has some isolates of the Worker count hops and report them to a server, again and again:
// node isolates.mjs HOPS URL. HOPS is edge/worker/hops.js. Prints as JSON how many hops they
// counted, in all and from the member in row 0. The delay of reports ends when this program
// says so.
import { pathToFileURL } from "node:url";

const timers = [];
const { setTimeout: later } = globalThis;
globalThis.setTimeout = (f, ms, ...rest) => (ms === 15_000 ? timers.push(f) : later(f, ms, ...rest));
console.error = () => {};
const { Hops } = await import(pathToFileURL(process.argv[2]));
const ask = (path, init, body) => fetch(process.argv[3] + path, { method: init.method, body });
const isolates = Array.from({ length: 3 }, () => new Hops(ask));
const headers = new Headers({ "User-Agent": "Mozilla/5.0" });

let reports = [];
const ctx = { waitUntil: (promise) => reports.push(promise) };
const counted = { hops: 0, from: 0 };
let clients = 0;
const count = (isolate, from) => {
  // Whoever asks again in the hour is no further visitor.
  const client = `192.0.2.${++clients}`;
  for (let n = 0; n < 3; n++) isolate.count(from, 2, client, headers, ctx);
  counted.hops++;
  if (from === 1) counted.from++;
};
// All isolates report at once. In the last round nothing is lost any more.
const rounds = 30;
for (let round = 0; round < rounds; round++) {
  if (round === rounds - 1) await fetch(process.argv[3] + "/reliable", { method: "POST" });
  isolates.forEach((isolate, i) => {
    for (let n = 0; n < 1 + ((round + i) % 4); n++) count(isolate, n % 2);
  });
  timers.splice(0).forEach((run) => run());
  await Promise.all(reports);
  reports = [];
}
process.stdout.write(JSON.stringify(counted));
