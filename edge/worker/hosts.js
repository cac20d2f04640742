// Hosts with letters beyond ASCII, as edge/front/hosts.go and edge/idn have them: the core knows
// host names as A-labels only.

/** A query that has nothing beyond ASCII in it once it is decoded, and no escape that was escaped. */
const PLAIN = /^(?:[ -$&-~]|%(?!25|[89a-f]))*$/i;
/** An address, decoded once to bytes, whose host has something beyond ASCII in it, or an escape. */
const FOREIGN = /^[^:/?#%\x80-\uffff]*(?::\/\/[^:/?#%\x80-\uffff]*)?[%\x80-\uffff]/;
const NAME = /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?$/;
/** The longest name that is converted, in bytes. */
const LONGEST = 512;

/** @type {(text: string, otherwise: string) => string} undoes escapes, if what they say is UTF-8 */
function unescaped(text, otherwise) {
	try {
		return decodeURIComponent(text);
	} catch {
		return otherwise;
	}
}

/** Gives a target with the host of its from parameter in A-labels. @type {(target: string) => string} */
export function asciiHosts(target) {
	const at = target.indexOf("?") + 1;
	if (at === 0 || PLAIN.test(target.slice(at))) return target;
	let changed = false; // the core reads one from only
	const pairs = target.slice(at).split("&");
	const query = pairs.map((pair) => {
		const [name, ...rest] = pair.split("=");
		const value = rest.join("=");
		const bytes = value.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
		if (changed || unescaped(name, "") !== "from" || !FOREIGN.test(bytes)) return pair;
		changed = true;
		const sent = unescaped(value.replaceAll("+", "%20"), value);
		const ascii = reference(sent);
		return ascii === sent ? pair : `${name}=${encodeURIComponent(ascii)}`;
	});
	return changed ? target.slice(0, at) + query.join("&") : target;
}

/** Gives a reference to a member with its host in A-labels, if that can be. @type {(ref: string) => string} */
function reference(ref) {
	const [, scheme, host = "", rest = ""] = /^([^/?#:]*:\/\/)?([^/?#:]*)([^]*)$/.exec(ref) ?? [];
	if (/^[^/?#]*[@[]/.test(host + rest)) return ref;
	const ascii = toASCII(host);
	return ascii !== "" && (scheme || ascii.includes(".")) ? (scheme ?? "") + ascii + rest : ref;
}

/** Gives a host name in A-labels, "" if it is none. @type {(host: string) => string} */
function toASCII(host) {
	const name = host.includes("%") ? unescaped(host, "%") : host;
	// What a URL would read as something else than a part of the name is in none.
	if (/[^a-z0-9.\x80-\u{10ffff}-]/iu.test(name) || new TextEncoder().encode(name).length > LONGEST) return "";
	const url = `http://${name}/`;
	const { hostname } = URL.canParse(url) ? new URL(url) : { hostname: "" };
	return NAME.test(hostname) ? hostname : "";
}
