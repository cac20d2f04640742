// Package search finds members by the words of their names, hosts and slugs.
//
// A word of a search finds the words that begin with it. Case, accents and width do not count
// ([fold]). A member is found when each word of the search finds one of its own. Members are
// given in ring order, which no search changes.
//
// An [Index] is a sorted list of words with the rows that have them, in memory and nowhere
// else. The first search makes it from all rows; each later one first works in the events
// since the one before. A search looks at up to 1024 changed rows one by one; when there are
// more, they are sorted in first.
//
// An entry is 16 bytes of a word and a row, 20 in all, and a member has at most 24 of them. So
// the index takes at most 480 bytes and one bit for each row of the ledger, and up to four
// times as much while all rows are sorted in at once. A member of three short names takes about 100.
//
// A removed member leaves the memory of the index with the first search after it.
package search
