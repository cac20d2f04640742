package core

import "testing"

// The room of a state is told by its accounts: no other column may be shorter.
func TestAllColumnsHaveRoomForAsManyRows(t *testing.T) {
	for rows := 1; rows < 3000; rows++ {
		var s store
		s.reserve(rows, 0)
		for name, n := range map[string]int{"at": len(s.at), "hostNext": len(s.hostNext), "flags": len(s.flags), "places": len(s.due.Places),
			"entries": len(s.due.Entries), "marks": 64 * len(s.marks[0].Bits), "ahead": len(s.slugs.Ahead)} {
			if n < len(s.accounts) || len(s.accounts) < rows {
				t.Fatalf("asked for %d rows: %d accounts, and %d of %s", rows, len(s.accounts), n, name)
			}
		}
	}
}
