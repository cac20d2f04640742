// Package aside keeps what the origin has besides the ledger: hops, news, the best bid, moments and an index
// for searches. Edges do not have it. They ask the origin for the documents (package edge/cache).
//
// # Hops
//
// [Hops] keeps how many visitors were sent from and to each member, by days, in a table of
// the ledger's store: backups and other nodes of a cluster have it. [Hops.Receive] adds a
// report (package edge/hops) to the days and notes its number in one transaction, so a report
// that comes twice counts once. Days are kept for 400 days. Rows, with numbers in big endian:
//
//	'd' block(u16) row(u32)   the 32 days from day 32 × block on, of the member in this row
//	                          of the ring: for each day the hops from it and to it, as
//	                          varints, up to the last day that has any
//	'd' block(u16) 0xffffffff the same of the whole ring: for each day all hops, and 0
//	's' sender(16 bytes)      number of the last report that was received from it, and its
//	                          day, as varints
//
// # News
//
// News say what has happened to members: they joined, were paid for, were outbid, took another
// rank among the first hundred, began to fade, fell asleep, woke, changed, moved, proved
// themselves, or left. Owners learn from them that they were outbid without asking again and
// again.
//
// [ObserveNews] writes the news of an event in the transaction of the event, so a crash or a
// change of the leader neither loses nor doubles them. It compares the first hundred before
// and after, at the same cost in a ring of any size, and writes a row for each member that has
// another rank. A bid takes 30 µs more, and 1 ms more if it passes all hundred, whose rows have
// 60 kB then. [PassNews], called once an hour, writes what time alone has changed.
// [CatchUpNews] writes the news of events that came without an observer, such as those from a
// backup; these have no ranks but the present ones. [News] answers reads.
//
// Rows hold ordinals and numbers. Slugs are taken from the ring at each read, so a member that
// is hidden or was redacted has no word in them. Rows, with numbers in big endian:
//
//	"s"               the [status]: up to where everything is worked through, and the order
//	                  of the first hundred then
//	'b' slot(u16)     the batch of news with a number n, in slot n mod 4096, so that the
//	                  last 4096 batches are kept without deleting rows
//	'm' ordinal(u32)  the last 40 news of a member
//	"l"               the last 64 changes of the lead: when, and who led from then on
//	'w' slug          the [Webhook] of a member, as JSON: its URL is in no event, because
//	                  events are public; with a slash behind the slug, that of its earlier owner
//	't' slug          what owners have [Lost] by claims, as JSON: its words go with the member
//
// One batch has the news of one event, or of a part of a pass. News are numbered by their batch
// and their place in it, so numbers rise, with gaps.
//
// # The best bid
//
// [Best] finds the member that the least bid lifts past most others. It reads the whole ring in
// parts of 1024 members, once a minute at most while somebody reads the news of the ring, which
// name that member. It takes about a second of one processor for a million members.
//
// # Moments
//
// [Moments] tell how the ring grew: who was first, with which standing, after each event that
// changed this ([facts]); of a long history after some of them and the last. They come from replaying
// all events in a second state, and lie in memory alone.
//
// # Search
//
// [Index] finds members by the words of their names, hosts and slugs. A word of a search
// matches words that begin with it. Case, accents and width do not count ([fold]). A member is
// found when each word of the search matches one of its own. Members come in ring order.
//
// An index is a sorted list of words with the rows that have them, in memory alone. The first
// search makes it from all rows; each later one first works in the events since the previous
// one. A search looks at up to 1024 changed rows one by one; more of them are sorted in first.
//
// An entry is 16 bytes of a word and a row, 20 in all, and a member has at most 24 of them. So
// the index takes at most 480 bytes and one bit for each row of the ledger, and up to four
// times as much while all rows are sorted in at once. A member of three short names takes about
// 100. A removed member leaves the memory of the index with the first search after it.
package aside
