// Reads feeds, OPML, sitemaps and the API catalog with parsers by others, which
// throw at what has not the form. The argument is the ring's address; the answer
// is what each holds, in the words of its parser.
import linkset from "@drupal/linkset";
import { parseAtomFeed, parseJsonFeed, parseOpml } from "feedsmith";
import { ErrorLevel, XMLToSitemapIndexStream, XMLToSitemapItemStream } from "sitemap";
import { Readable } from "node:stream";

const base = process.argv[2];
const text = async (path) => {
  const answer = await fetch(base + path);
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.text();
};
const addresses = async (path, Parser) =>
  (await Readable.from([await text(path)]).pipe(new Parser({ level: ErrorLevel.THROW })).toArray()).map((entry) => entry.url);

const parts = await addresses("/sitemap.xml", XMLToSitemapIndexStream);
const pages = [];
for (const part of parts) pages.push(...await addresses(part.slice(base.length), XMLToSitemapItemStream));
const links = [...linkset.parse(await text("/.well-known/api-catalog"))];
const answer = { pages, links: links.map(({ anchor, rel, href }) => ({ anchor, rel, href })), opml: parseOpml(await text("/ring.opml")).body.outlines };
for (const kind of ["joins", "lead"]) {
  answer[kind] = { atom: parseAtomFeed(await text(`/feeds/${kind}.atom`)), json: parseJsonFeed(await text(`/feeds/${kind}.json`)) };
}
answer.members = {};
for (const page of pages.filter((page) => page.startsWith(base + "/members/"))) {
  const slug = page.slice((base + "/members/").length);
  answer.members[slug] = { atom: parseAtomFeed(await text(`/feeds/members/${slug}.atom`)), json: parseJsonFeed(await text(`/feeds/members/${slug}.json`)) };
}
console.log(JSON.stringify(answer));
