// Reads both feeds of a member with a parser by others. The arguments are the address of
// the ring, or of one of its edges, and the member's slug.
import { parseAtomFeed, parseJsonFeed } from "feedsmith";

const [base, slug] = process.argv.slice(2);
const read = async (form, parse) => {
  const answer = await fetch(`${base}/feeds/members/${slug}.${form}`);
  return answer.ok ? parse(await answer.text()) : { status: answer.status };
};
const atom = await read("atom", parseAtomFeed);
const json = await read("json", parseJsonFeed);
console.log(JSON.stringify({
  status: atom.status ?? json.status ?? 200,
  atom: atom.entries?.map(({ id, title }) => ({ id, title: title.value })),
  json: json.items?.map(({ id, title }) => ({ id, title })),
}));
