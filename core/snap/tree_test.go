package snap_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
)

// The library's tree is the judge of ours, at every size and after every way
// of getting there.
func TestTheTreeIsThatOfRFC6962(t *testing.T) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			hashes[i] = stored[x]
		}
		return hashes, nil
	})
	var tree snap.Tree
	for n := range int64(300) {
		want, err := tlog.TreeHash(n, reader)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Root(); got != want || tree.Size() != uint64(n) {
			t.Fatalf("size %d: root %x at %d, want %x", n, got, tree.Size(), want)
		}
		again, ok := snap.OpenTree(uint64(n), tree.Append(nil))
		if !ok || again != tree {
			t.Fatalf("size %d: the tree does not come back from its edge", n)
		}
		tree = again
		event := binary.BigEndian.AppendUint64(nil, uint64(n*n))[:n%9]
		tree.Add(event)
		hashes, err := tlog.StoredHashes(n, event, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
	}
}

func TestAnEdgeThatDoesNotBelongToItsSizeIsNoTree(t *testing.T) {
	edge := make([]byte, 3*32)
	for size, ok := range map[uint64]bool{7: true, 13: true, 1<<63 | 3: true, 0: false, 8: false, 15: false} {
		if _, got := snap.OpenTree(size, edge); got != ok {
			t.Errorf("size %d: %v", size, got)
		}
	}
	if _, ok := snap.OpenTree(7, edge[:95]); ok {
		t.Error("a hash that is cut was taken")
	}
}
