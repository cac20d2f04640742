// Package hops keeps how many visitors were sent from and to each member, by days, in a
// table of the ledger's store: backups and other nodes of a cluster have it, and edges do
// not.
//
// [Store.Receive] adds a report (package core/hops) to the days and notes its number in one
// transaction, so a report that comes twice counts once. Days are kept for 400 days.
// [Store.Document] answers reads.
//
// Rows of the table, with numbers in big endian:
//
//	'd' block(u16) row(u32)   the 32 days from day 32 × block on, of the member in this row
//	                          of the ring: for each day the hops from it and to it, as
//	                          varints, up to the last day that has any
//	'd' block(u16) 0xffffffff the same of the whole ring: for each day all hops, and 0
//	's' sender(16 bytes)      number of the last report that was received from it, and its
//	                          day, as varints
package hops
