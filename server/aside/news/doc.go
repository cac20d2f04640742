// Package news keeps what has happened to members: who joined, was paid for, was outbid, took
// another rank among the first hundred, begins to fade, fell asleep, woke, changed, moved,
// proved itself, or left. It is how owners learn that they were outbid without asking again
// and again.
//
// [Observe] writes the news of an event in the transaction of the event, so they are
// neither lost nor doubled by a crash or a change of the node that leads. It compares the
// first hundred before and after: that costs the same in a ring of any size. It writes a row for
// each member that has another rank. A bid takes 30 µs more so, and 1 ms more if it passes all
// hundred, whose rows have 60 kB then.
// [Pass], called once an hour, writes what time alone has changed. [Store.CatchUp] writes the news
// of events that came without an observer, from an earlier version or from a backup; they tell
// of no ranks but the present ones. [Document] answers reads.
//
// Rows hold ordinals and numbers. Slugs are taken from the ring when somebody reads, so a member
// that is hidden or was redacted has no word in them.
//
// Rows of the table, with numbers in big endian:
//
//	"s"               the [status]: up to where everything is worked through, and the order
//	                  of the first hundred then
//	'b' slot(u16)     the batch of news with a number n, in slot n mod 4096: the numbers of
//	                  the last 4096 batches are so kept without deleting rows
//	'm' ordinal(u32)  the last 40 news of a member
//	"l"               the last 64 changes of the lead: when, and who led from then on
//
// One batch has the news of one event, or of a part of a pass. News are numbered by their batch
// and their place in it, so numbers rise, with gaps.
package news
