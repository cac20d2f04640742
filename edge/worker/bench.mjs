// What a Worker costs under workerd, compared with an empty Worker that answers as many bytes and
// with webring edge: node bench.mjs WEBRING BUNDLE. Servers have one processor, clients the other;
// taskset is needed. The three take turns, so that a busy machine is busy for all of them. Cold
// starts are the first answer of a new isolate that has fetched nothing.
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [webring, bundle] = process.argv.slice(2).map((path) => resolve(path));
const program = fileURLToPath(import.meta.resolve(`@cloudflare/workerd-linux-${process.arch === "x64" ? "64" : process.arch}/bin/workerd`));
const [SERVERS, CLIENTS] = ["0", "1"];
const TURNS = 7;
const REQUESTS = 3_000;
const CONNECTIONS = 8;
const RINGS = [1_000, 100_000, 200_000];

execFileSync("taskset", ["-cp", CLIENTS, String(process.pid)]);
const folder = mkdtempSync(join(tmpdir(), "bench-worker-"));
const running = new Set();
process.on("exit", () => {
	for (const child of running) child.kill("SIGKILL");
	rmSync(folder, { recursive: true, force: true });
});

const free = () =>
	new Promise((done) => {
		const server = createServer().listen(0, "127.0.0.1", () => {
			const { port } = server.address();
			server.close(() => done(port));
		});
	});

function run(command, args, env = {}) {
	const child = spawn("taskset", ["-c", SERVERS, command, ...args], { env: { ...process.env, WEBRING_ADMIN_LISTEN: "", ...env } });
	child.said = "";
	for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (child.said += text));
	running.add(child);
	child.on("exit", () => running.delete(child));
	return child;
}

const stop = (child) =>
	new Promise((done) => {
		child.on("exit", done);
		child.kill("SIGKILL");
	});

/** Asks once, and gives status and length of the answer. */
const ask = (port, path, agent) =>
	new Promise((done, fail) => {
		get({ port, path, agent, host: "127.0.0.1" }, (answer) => {
			let size = 0;
			answer.on("data", (chunk) => (size += chunk.length));
			answer.on("end", () => done({ status: answer.statusCode, size, seq: answer.headers["webring-seq"] }));
			answer.on("error", fail);
		}).on("error", fail);
	});

async function answers(port, path, child) {
	for (;;) {
		try {
			return await ask(port, path);
		} catch (error) {
			if (child.exitCode !== null) throw new Error(child.said, { cause: error });
			await new Promise((done) => setTimeout(done, 20));
		}
	}
}

/** The processor time of a process in microseconds. */
const used = ({ pid }) =>
	readdirSync(`/proc/${pid}/task`)
		.map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1000)
		.reduce((sum, time) => sum + time);

/** Microseconds of processor time a request. */
async function cost({ child, port, path }) {
	const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
	let left = REQUESTS;
	const one = async () => {
		while (left-- > 0) await ask(port, path, agent);
	};
	const before = used(child);
	await Promise.all(Array.from({ length: CONNECTIONS }, one));
	agent.destroy();
	return (used(child) - before) / REQUESTS;
}

/** Asks servers in turns, and gives the median of what each costs, and of how often the first one's cost that is. */
async function compare(servers) {
	for (const server of servers) await cost(server);
	const turns = [];
	for (let i = 0; i < TURNS; i++) {
		const costs = [];
		for (const server of servers) costs.push(await cost(server));
		turns.push(costs);
	}
	const median = (numbers) => numbers.sort((a, b) => a - b)[TURNS >> 1];
	return servers.map((_, i) => ({ micros: median(turns.map((c) => c[i])), times: median(turns.map((c) => c[i] / c[0])) }));
}

/** Starts a Worker, and gives its process and port. */
async function startWorker(dir, env) {
	const port = await free();
	const floor = mkdtempSync(join(folder, "floor-"));
	const child = run(
		program,
		["serve", join(dir, "workerd.capnp"), "--socket-addr", `http=127.0.0.1:${port}`, "--directory-path", `floor=${floor}`],
		env,
	);
	return { child, port };
}

const empty = join(folder, "empty");
mkdirSync(empty);
writeFileSync(
	join(empty, "worker.js"),
	`const bodies = {};
	export default { fetch({ url }) {
		const size = url.slice(url.indexOf("?") + 1);
		return new Response((bodies[size] ??= "x".repeat(size)), { headers: { "Cache-Control": "no-store" } });
	} };`,
);
for (const name of ["workerd.capnp", "core.wasm"]) writeFileSync(join(empty, name), readFileSync(join(bundle, name)));
const none = { ORIGIN: "", ORIGIN_KEY: "", EDGE_SECRET: "", RATE_LIMIT: "0" };

const idle = await startWorker(empty, none);
await answers(idle.port, "/?7", idle.child);

for (const members of RINGS) {
	const data = join(folder, String(members));
	execFileSync(webring, ["seed", "--members", String(members), "--data", data], { stdio: "ignore" });
	const [at, beside] = [await free(), await free()];
	const url = `http://127.0.0.1:${at}`;
	const origin = run(webring, [
		"serve",
		"--dev",
		"--scorer",
		"fixed:72",
		"--listen",
		`127.0.0.1:${at}`,
		"--base-url",
		url,
		"--rate-limit",
		"0",
		"--data",
		data,
	]);
	await answers(at, "/api", origin);
	let key;
	while (!(key = /--origin-key (\S+)/.exec(origin.said)?.[1])) await new Promise((done) => setTimeout(done, 20));

	const colds = [];
	let worker;
	for (let i = 0; i < 5; i++) {
		if (worker) await stop(worker.child);
		worker = await startWorker(bundle, { ...none, ORIGIN: url, ORIGIN_KEY: key });
		await answers(worker.port, "/nothing", worker.child); // its process listens, and nothing has been loaded
		const [began, before] = [performance.now(), used(worker.child)];
		await ask(worker.port, "/api");
		// If it takes long, the origin answers the first request meanwhile.
		for (let late = performance.now() + 60_000; !/begun at/.test(worker.child.said);) {
			if (performance.now() > late) throw new Error(worker.child.said);
			await new Promise((done) => setTimeout(done, 5));
		}
		const [, memory] = /the core has (\d+) MiB/.exec(worker.child.said);
		colds.push({ wall: performance.now() - began, cpu: (used(worker.child) - before) / 1000, memory });
	}
	colds.sort((a, b) => a.wall - b.wall);
	const { wall, cpu, memory } = colds[2];
	console.log(
		`${members} members: begun after ${wall.toFixed(0)} ms and ${cpu.toFixed(0)} ms of processor, with ${memory} MiB of linear memory`,
	);

	const edge = run(webring, [
		"edge",
		"--core",
		"wasm",
		"--listen",
		`127.0.0.1:${beside}`,
		"--origin",
		url,
		"--origin-key",
		key,
		"--rate-limit",
		"0",
		"--data",
		`${data}-edge`,
	]);
	await answers(beside, "/api", edge);
	for (const path of ["/next?from=nobody", "/api/ring?limit=10", "/api/leaderboard"]) {
		const { size } = await ask(worker.port, path);
		const servers = [
			{ ...idle, path: `/?${size}` },
			{ ...worker, path },
			{ child: edge, port: beside, path },
		];
		const [nothing, here, there] = await compare(servers);
		console.log(
			`  ${path}: ${here.micros.toFixed(0)} µs, ${here.times.toFixed(2)} × the ${nothing.micros.toFixed(0)} of an empty Worker ` +
				`with as many bytes (${size}); webring edge ${there.micros.toFixed(1)} µs`,
		);
	}
	for (const child of [worker.child, edge, origin]) await stop(child);
}

await stop(idle.child);
