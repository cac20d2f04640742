package core

// Prefetch reads from the memory that documents show of these members, and does nothing
// else. In a large ring each read of another member waits for memory. A processor waits for
// many reads at the same time when they follow each other closely, and for one after another
// when each member is written before the next is read. The result means nothing.
//
// It is not inlined: the compiler would drop reads without a used result.
//
//go:noinline
func (s *State) Prefetch(members []Ordinal) (nothing byte) {
	at, accounts, flags, texts := s.at, s.accounts, s.flags, s.texts
	for _, o := range members {
		nothing += byte(at[o]) + byte(accounts[o].total) + flags[o]
	}
	for _, o := range members {
		if i := 4 * int(at[o]); i+window <= len(texts) {
			// Without a loop, which in WebAssembly costs as much as all five reads.
			row := (*[window]byte)(texts[i:])
			nothing += row[0] + row[64] + row[128] + row[192] + row[256]
		}
	}
	return nothing
}

// window is how much of a row Prefetch has fetched: five lines of a processor's
// cache, which most rows are no longer than. Processors fetch what follows by
// themselves.
const window = 5 * 64
