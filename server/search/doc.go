// Package search finds members by the words of their names, hosts and slugs.
//
// A word of a search finds the words that begin with it. Case, accents and width do not count
// ([fold]). A member is found when each word of the search finds one of its own. Members are
// given in ring order, which no search changes.
//
// An [Index] is a sorted list of words with the rows that have them, in memory and nowhere
// else. The first search makes it from all rows; each later one first works in the events
// since the one before. Rows that have changed are looked at one by one until there are so
// many that they are worth being sorted in. Of a word the index has 16 bytes, and of a member
// at most 24 words of 20 bytes together: that bounds its memory to 480 bytes a member, twice
// while rows are sorted in. A member of three short names takes about 100.
//
// A removed member leaves the memory of the index with the first search after it.
package search
