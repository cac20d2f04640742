package ledgertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"webring/core"
	"webring/server/ledger"
)

// transactions begins the key of the row that each transaction of a ledger writes: its
// serial number is the rest of the key, and tree size and root the value.
const transactions = "t"

// page is how many rows are read at a time.
const page = 1024

// found is what a node has stored.
type found struct {
	Node
	rows     ledger.Batch
	serial   uint64                         // of the last transaction
	payments map[string]*ledger.Reservation // by id
}

// event is an event of the most advanced ledger.
type event struct {
	core.Event
	payment core.Payment
	cents   int64
}

// read reads all ledgers, and finds the most advanced one.
func (c *checker) read() error {
	for _, n := range c.Nodes {
		f, err := readNode(n)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		c.nodes = append(c.nodes, f)
	}
	slices.SortStableFunc(c.nodes, func(a, b *found) int { return int(int64(a.serial) - int64(b.serial)) })
	c.longest = c.nodes[len(c.nodes)-1]
	for {
		records, err := c.longest.Books.Records(uint64(len(c.events)), page)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return err
			}
			p, cents := core.PaymentOf(e)
			c.events = append(c.events, event{e, p, cents})
		}
	}
}

func readNode(n Node) (*found, error) {
	f := &found{Node: n, rows: ledger.Batch{}, payments: map[string]*ledger.Reservation{}}
	err := n.Books.Rows(func(r ledger.Row) error {
		f.rows[string(r.Key)] = append([]byte{}, r.Value...)
		if serial, ok := serialOf(string(r.Key)); ok {
			f.serial = serial
		}
		return nil
	})
	for after, more := "", err == nil; more; {
		var some []*ledger.Reservation
		some, err = n.Books.Reservations(after, page)
		for _, r := range some {
			after, f.payments[r.ID] = r.ID, r
		}
		more = len(some) > 0
	}
	return f, err
}

// serialOf reads the key of the row of a transaction.
func serialOf(key string) (serial uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, transactions)
	if !ok || len(rest) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(rest)), true
}

// stores compares all ledgers with the most advanced one. Two that are at the same
// transaction have the same rows. One that is behind has the same trees after each of its
// transactions, and the same events.
func (c *checker) stores() error {
	for _, n := range c.nodes[:len(c.nodes)-1] {
		if n.serial == c.longest.serial {
			c.same(n, c.longest.Name, c.longest.rows)
			continue
		}
		if !n.Behind {
			c.violated(NothingLost, "%s ends at transaction %d and %s at %d", n.Name, n.serial, c.longest.Name, c.longest.serial)
		}
		for key, value := range n.rows {
			if serial, ok := serialOf(key); ok && !bytes.Equal(value, c.longest.rows[key]) {
				c.violated(OneHistory, "%s and %s have different trees after transaction %d", n.Name, c.longest.Name, serial)
			}
		}
		if err := c.sameEvents(n); err != nil {
			return err
		}
	}
	return nil
}

// same compares the rows of a node with those that it must have.
func (c *checker) same(n *found, other string, want ledger.Batch) {
	keys := maps.Clone(want)
	maps.Copy(keys, n.rows)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		has, there := n.rows[key]
		should, known := want[key]
		if there != known || !bytes.Equal(has, should) {
			c.violated(OneHistory, "row %.40q of %s is not that of %s, at transaction %d", key, n.Name, other, n.serial)
		}
	}
}

// sameEvents compares the events of a node that is behind.
func (c *checker) sameEvents(n *found) error {
	for from := uint64(0); ; {
		these, err := n.Books.Records(from, page)
		if err != nil || len(these) == 0 {
			return err
		}
		those, err := c.longest.Books.Records(from, len(these))
		if err != nil {
			return err
		}
		for i := range these {
			if i >= len(those) || !bytes.Equal(these[i].Event, those[i].Event) {
				c.violated(OneHistory, "event %d of %s is not that of %s", from+uint64(i), n.Name, c.longest.Name)
			}
		}
		from += uint64(len(these))
	}
}

// log holds the observer's copy of the log against itself and against every store: each
// must be what the log comes to at the store's last transaction.
func (c *checker) log() error {
	values := map[uint64]string{}
	for _, w := range c.Writes {
		if before, seen := values[w.Serial]; seen && before != w.Value {
			c.violated(OneContent, "transaction %d was written to the log with two contents", w.Serial)
		}
		values[w.Serial] = w.Value
	}
	groups := map[uint64]ledger.Batch{}
	for _, e := range c.Log {
		if before, seen := groups[e.Serial]; seen && !maps.EqualFunc(before, e.Rows, equalRow) {
			c.violated(OneContent, "transaction %d has two contents in the log", e.Serial)
		}
		groups[e.Serial] = e.Rows
	}
	serials := slices.Sorted(maps.Keys(groups))
	for i := 1; i < len(serials); i++ {
		if serials[i] != serials[i-1]+1 {
			c.violated(OneContent, "the log has nothing between transactions %d and %d", serials[i-1], serials[i])
		}
	}
	if len(serials) == 0 {
		return nil
	}
	first, folded := serials[0], maps.Clone(c.Begin)
	if folded == nil {
		folded = ledger.Batch{}
	}
	for _, n := range c.nodes {
		for len(serials) > 0 && serials[0] <= n.serial {
			for key, value := range groups[serials[0]] {
				if folded[key] = value; value == nil {
					delete(folded, key)
				}
			}
			serials = serials[1:]
		}
		if n.serial+1 >= first { // otherwise it is further behind than what was observed
			c.same(n, "the log", folded)
		}
	}
	return nil
}

// equalRow distinguishes a deletion from an empty value.
func equalRow(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
