// Package backup puts a whole origin into one file and brings it back: the rows
// of the ledger at one instant, and the keys.
//
// The file is a tar archive, written in one go while the origin serves:
//
//	mpp-secret     the challenge key
//	sync-key       the key that signs for edges
//	rows/000000 …  the ledger's rows, in pieces
//	end            SHA-256 over all before it, in hexadecimal
//
// A piece is a sequence of rows: length(4 bytes, big endian) key, length value. The file
// holds the keys, so its reader can sign as the origin.
//
// [Write] and [Read] are the two directions. [CatchUp] fetches from edges the events that
// the ledger lacks: they have seen what the origin signed, and refuse an origin that
// signs another history.
package backup
