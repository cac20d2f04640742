package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/flat"
	"webring/wasm/host/sharedmem"
)

// linear is all memory of an instance.
func linear(in *instance) []byte {
	b, _ := in.memory.Read(0, in.memory.Size())
	return b
}

// mapped sums a field of the kernel's list of mappings over those that lie in b, in
// bytes. Anonymous is what the process has for itself and does not share.
func mapped(t testing.TB, b []byte, field string) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	least := flat.Address(b)
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uint64
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from >= least && to <= least+uint64(len(b))
		}
		if size, ok := strings.CutPrefix(s.Text(), field+":"); ok && inside {
			kilo, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(size), " kB"))
			bytes += kilo << 10
		}
	}
	return bytes
}

// sharing gives an instance of a ring of 20 000 members that shares memory.
func sharing(t *testing.T) *instance {
	t.Helper()
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 1, Snapshot: follow(t, ring(20_000)).Snapshot()})
	in := p.slots[0].in
	if _, ok := in.from.memory.(*sharedmem.Image); !ok || len(in.shared) < 1<<20 {
		t.Fatalf("%d bytes are shared", len(in.shared))
	}
	return in
}

// However much memory the guest asks for, what it has stays where it is: a mapping
// that moved would leave the guest with other bytes.
func TestTheMemoryOfAGuestNeverMoves(t *testing.T) {
	in := sharing(t)
	before := linear(in)
	for size := uint64(1 << 20); size <= 256<<20; size *= 2 { // each asks for twice as much
		if _, err := in.must(abi.OpRoom, size, nil); err != nil {
			t.Fatal(err)
		}
	}
	after := linear(in)
	if len(after) < 2*len(before) {
		t.Fatalf("memory has grown from %d to %d bytes only", len(before), len(after))
	}
	if &before[0] != &after[0] {
		t.Error("the memory has moved")
	}
	if n := mapped(t, in.shared, "Anonymous"); n >= 64<<10 {
		t.Errorf("%d of %d bytes are no longer shared", n, len(in.shared))
	}
}

// The guest's collector leaves what instances share alone: it neither moves the ring
// nor reads pages in, marks or clears them.
func TestTheCollectorOfAGuestLeavesSharedMemoryAlone(t *testing.T) {
	in := sharing(t)
	_, want, err := in.digest()
	if err != nil {
		t.Fatal(err)
	}
	collections := func() { // each snapshot is garbage longer than what has the guest collect
		for range 5 {
			if _, err := in.must(abi.OpSnapshot, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	collections()
	if n := mapped(t, in.shared, "Anonymous"); n >= 64<<10 {
		t.Errorf("%d of %d bytes are no longer shared", n, len(in.shared))
	}
	if _, digest, err := in.digest(); err != nil || digest != want {
		t.Errorf("%x %v, want %x", digest, err, want)
	}
	// The ring lies where it did: a bid shows there.
	lies := flat.Address(in.shared) - flat.Address(linear(in))
	room := linear(in)[lies : lies+uint64(in.from.memory.Len())]
	before := bytes.Clone(room[len(in.shared):])
	bid(t, in, 0)
	if bytes.Equal(before, room[len(in.shared):]) {
		t.Error("the ring has moved")
	}
}

// Bids and seconds write to nothing that instances share, wherever they fall: so
// they never wait for a page.
func TestBidsAndSecondsLeaveWhatIsSharedAlone(t *testing.T) {
	in := sharing(t)
	before := mapped(t, in.shared, "Anonymous")
	for i := range int64(2000) {
		bid(t, in, i)
	}
	if after := mapped(t, in.shared, "Anonymous"); after != before {
		t.Errorf("%d bytes of what was shared have been written to", after-before)
	}
}

// bid has an instance fold bid i and go on to its second.
func bid(t *testing.T, in *instance, i int64) {
	t.Helper()
	now := epoch + 100 + 1000*i
	bid := &core.Bid{Stamp: now * 1000, Member: fmt.Sprintf("m%d", i*7919%20_000), Amount: 100 + i}
	if reply, err := in.apply(encode([]Record{record(bid, nil)})); err != nil || reply.Refused {
		t.Fatalf("%v %s", err, reply.Rest)
	}
	if err := in.advance(now); err != nil {
		t.Fatal(err)
	}
}
