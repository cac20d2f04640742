package coretest

import (
	"encoding/binary"

	"webring/core"
)

// Earlier is the snapshot that version 3 made of a state without claims, changes, proofs
// and visits: rows ended before the beginning of the owner's account.
func Earlier(st *core.State) []byte {
	digest := st.Digest()
	base := core.AppendBase(nil, st.Base())
	b := append([]byte("webring snapshot 3\n"), digest[:]...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(base))), base...)
	b = binary.BigEndian.AppendUint32(b, uint32(st.Rows()))
	for o := range st.Rows() {
		row := st.AppendRow(nil, core.Ordinal(o))
		row = row[:len(row)-(8+2+8+8+1+8)]
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(row))), row...)
	}
	return b
}
