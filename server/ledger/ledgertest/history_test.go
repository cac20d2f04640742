package ledgertest_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

const network = "tempo:42431"

// cluster is one history in the making: the leader's ledger, and what is seen of it.
type cluster struct {
	t     *testing.T
	store *ledgertest.Store
	books *ledger.Ledger
	ledgertest.History
}

// commit records what the leader writes.
func (c *cluster) commit(b ledger.Batch) error {
	for key := range b {
		if strings.HasPrefix(key, "t") {
			rows := ledger.Batch{}
			for k, v := range b {
				rows[k] = slices.Clone(v)
			}
			c.Log = append(c.Log, ledgertest.Entry{Serial: uint64(key[8]), Rows: rows})
			c.Writes = append(c.Writes, ledgertest.Write{Serial: uint64(key[8]), Value: fmt.Sprint(rows)})
		}
	}
	return c.store.Commit(b)
}

// recorded is a store that shows its commits.
type recorded struct {
	*ledgertest.Store
	seen func(ledger.Batch) error
}

func (r recorded) Commit(b ledger.Batch) error { return r.seen(b) }

func open(t *testing.T, store ledger.Store) *ledger.Ledger {
	t.Helper()
	head := filepath.Join(t.TempDir(), "head")
	if err := ledger.BeginHead(head); err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(ledger.Config{Store: store, HeadPath: head, Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { books.Close() })
	return books
}

// lawful is a history in which everything went well: five payments, one of which failed,
// at three nodes, of which one ends with the third.
func lawful(t *testing.T) *cluster {
	c := &cluster{t: t, store: ledgertest.NewStore()}
	c.books = open(t, recorded{c.store, c.commit})
	c.do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1}, nil)
		return err
	})
	c.do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
			&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.example/"}})
		return err
	})
	c.pay("first", 100)
	c.pay("second", 250)
	c.fail("third", 300)
	early := c.store.Copy()
	c.pay("fourth", 400)
	c.pay("fifth", 500)
	c.node("one", c.store)
	c.node("two", c.store)
	c.node("three", early)
	c.Nodes[2].Behind = true
	return c
}

func (c *cluster) do(fn func(*ledger.Tx) error) {
	c.t.Helper()
	if err := c.books.Do(context.Background(), fn); err != nil {
		c.t.Fatal(err)
	}
}

// end gives the nodes these stores for their end, in place of their earlier ones.
func (c *cluster) end(stores ...*ledgertest.Store) {
	c.Nodes = nil
	for i, store := range stores {
		c.node([]string{"one", "two"}[i], store)
	}
}

// node finds a node with what a store has.
func (c *cluster) node(name string, store *ledgertest.Store) {
	c.Nodes = append(c.Nodes, ledgertest.Node{Name: name, Books: open(c.t, store.Copy())})
}

func (c *cluster) reserve(id string, cents int64) *ledger.Reservation {
	c.t.Helper()
	r := &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: ledger.OperationBid, Member: "ada", Cents: cents, Payer: "0x1",
		ReplayKeys: []string{id}, ValidBefore: time.Now().Add(time.Minute)}
	c.do(func(tx *ledger.Tx) error { return tx.Reserve(r) })
	c.Broadcasts = append(c.Broadcasts, ledgertest.Broadcast{Node: "one", Payment: id, Head: c.Log[len(c.Log)-1].Serial})
	return r
}

func (c *cluster) pay(id string, cents int64) {
	c.t.Helper()
	r := c.reserve(id, cents)
	c.do(func(tx *ledger.Tx) (err error) {
		r.Seq, err = tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: cents,
			Payment: core.Payment{Method: "tempo", Network: network, Transaction: "0x" + id, Payer: r.Payer}}, nil)
		if err != nil {
			return err
		}
		r.State, r.Response = ledger.Applied, &ledger.Response{Status: 200, Body: []byte(id)}
		return tx.Update(r)
	})
	c.Transfers = append(c.Transfers, ledgertest.Transfer{Network: network, Transaction: "0x" + id, Cents: cents})
	told := ledgertest.Answer{Node: "one", Payment: id, Transaction: "0x" + id, Cents: cents, Status: 200, Position: r.Seq + 1, Body: []byte(id)}
	again := told
	again.Node, again.Status, again.Code, again.Outcome, again.Body, again.Position = "two", 409, "credential_reused", "applied", nil, 0
	unsure := again
	unsure.Status, unsure.Code, unsure.Outcome = 503, "payment_pending", ""
	c.Answers = append(c.Answers, unsure, told, again)
	c.sign()
}

func (c *cluster) fail(id string, cents int64) {
	c.t.Helper()
	r := c.reserve(id, cents)
	r.State, r.Outcome = ledger.Failed, "failed"
	c.do(func(tx *ledger.Tx) error { return tx.Update(r) })
	told := ledgertest.Answer{Node: "one", Payment: id, Transaction: "0x" + id, Cents: cents, Status: 402, Code: "payment_expired"}
	again := told
	again.Status, again.Code, again.Outcome = 409, "credential_reused", "failed"
	c.Answers = append(c.Answers, told, again)
}

// sign signs the present position, and has an edge see it.
func (c *cluster) sign() {
	size, root := c.books.Root()
	p := snap.Checkpoint{Origin: "ring", Size: size, Root: root, Time: 1000 + int64(size), State: [16]byte{byte(size)}}
	c.Checkpoints = append(c.Checkpoints, ledgertest.Checkpoint{Source: "edge", Text: p.Text()})
	c.Reads = append(c.Reads, ledgertest.Read{Source: "edge", Position: size})
}

// resign changes the last checkpoint, which another source gives.
func (c *cluster) resign(change func(*snap.Checkpoint)) {
	p, err := snap.ParseCheckpoint(c.Checkpoints[len(c.Checkpoints)-1].Text)
	if err != nil {
		c.t.Fatal(err)
	}
	change(&p)
	c.Checkpoints = append(c.Checkpoints, ledgertest.Checkpoint{Source: "another edge", Text: p.Text()})
}

// answer gives the answer to change with this status about a payment.
func (c *cluster) answer(payment string, status int) *ledgertest.Answer {
	i := slices.IndexFunc(c.Answers, func(a ledgertest.Answer) bool { return a.Payment == payment && a.Status == status })
	return &c.Answers[i]
}

// fork gives a cluster that goes on from what a store has without knowing of this one.
func (c *cluster) fork(store *ledgertest.Store) *cluster {
	f := &cluster{t: c.t, store: store.Copy()}
	f.books = open(c.t, recorded{f.store, f.commit})
	return f
}

// beforeLast is the store of a ledger that never knew of the last payment.
func (c *cluster) beforeLast() *ledgertest.Store {
	store := ledgertest.NewStore()
	if err := store.Accept(); err != nil {
		c.t.Fatal(err)
	}
	for _, e := range c.Log[:len(c.Log)-2] {
		if err := store.Commit(e.Rows); err != nil {
			c.t.Fatal(err)
		}
	}
	return store
}

func TestALawfulHistoryHasNoViolations(t *testing.T) {
	c := lawful(t)
	found, err := c.Check()
	if err != nil || len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
}

// TestEachViolationIsFound plants one violation at a time.
func TestEachViolationIsFound(t *testing.T) {
	for _, v := range []struct {
		name  string
		rule  ledgertest.Rule
		plant func(c *cluster)
	}{
		{"two nodes go on by themselves, one event each", ledgertest.OneHistory, func(c *cluster) {
			f := c.fork(c.beforeLast())
			f.pay("other", 500)
			c.Nodes = c.Nodes[:1]
			c.node("two", f.store)
		}},
		{"one of them further than the other", ledgertest.OneHistory, func(c *cluster) {
			f := c.fork(c.beforeLast())
			f.pay("other", 500)
			f.pay("another", 500)
			c.node("four", f.store)
		}},
		{"two reservations, no event", ledgertest.OneHistory, func(c *cluster) {
			f := c.fork(c.store)
			f.reserve("other", 100)
			c.reserve("sixth", 100)
			c.end(c.store, f.store)
		}},
		{"a reservation that a node behind has and nobody else", ledgertest.OneHistory, func(c *cluster) {
			f := c.fork(c.store)
			f.reserve("other", 100)
			c.pay("sixth", 100)
			c.end(c.store, f.store)
			c.Nodes[1].Behind = true
		}},
		{"a serial number is given twice in the log", ledgertest.OneContent, func(c *cluster) {
			f := c.fork(c.beforeLast())
			f.reserve("other", 100)
			c.Log = append(c.Log, f.Log...)
		}},
		{"the log is written over", ledgertest.OneContent, func(c *cluster) {
			f := c.fork(c.beforeLast())
			f.reserve("other", 100)
			c.Writes = append(c.Writes, f.Writes...)
		}},
		{"the log has a gap", ledgertest.OneContent, func(c *cluster) { c.Log = slices.Delete(c.Log, 4, 5) }},
		{"a store has more than the log", ledgertest.OneHistory, func(c *cluster) {
			e := &c.Log[len(c.Log)-1]
			e.Rows = maps.Clone(e.Rows)
			maps.DeleteFunc(e.Rows, func(key string, _ []byte) bool { return key[0] == 'r' })
		}},
		{"an acknowledged payment is nowhere", ledgertest.NothingLost, func(c *cluster) {
			before := c.beforeLast()
			c.Log = nil
			c.end(before, before)
		}},
		{"an acknowledged payment is missing at one node that is up", ledgertest.NothingLost, func(c *cluster) { c.Nodes[2].Behind = false }},
		{"an acknowledged payment is still open", ledgertest.NothingLost, func(c *cluster) {
			c.reserve("sixth", 100)
			c.end(c.store)
			c.Answers = append(c.Answers, ledgertest.Answer{Node: "two", Payment: "sixth", Cents: 100, Status: 200})
		}},
		{"a position that was answered was never reached", ledgertest.NothingLost, func(c *cluster) { c.answer("fifth", 200).Position = 99 }},
		{"a payment is shown before it is there", ledgertest.Truth, func(c *cluster) { c.answer("fifth", 200).Position = 2 }},
		{"another amount is booked than was signed", ledgertest.Truth, func(c *cluster) { c.answer("first", 200).Cents = 99 }},
		{"402 about a payment with an effect", ledgertest.Truth, func(c *cluster) {
			a := *c.answer("third", 402)
			a.Payment = "first"
			c.Answers = append(c.Answers, a)
		}},
		{"a failure of what is on the chain", ledgertest.Truth, func(c *cluster) {
			c.Transfers = append(c.Transfers, ledgertest.Transfer{Network: network, Transaction: "0xthird", Cents: 300})
		}},
		{"a refusal before any reservation of what is on the chain", ledgertest.Truth, func(c *cluster) {
			c.Transfers = append(c.Transfers, ledgertest.Transfer{Network: network, Transaction: "0xnever", Cents: 300})
			c.Answers = append(c.Answers, ledgertest.Answer{Node: "two", Payment: "never", Transaction: "0xnever", Cents: 300, Status: 402, Code: "verification_failed"})
		}},
		{"409 about a failed payment that says applied", ledgertest.NothingLost, func(c *cluster) { c.answer("third", 409).Outcome = "applied" }},
		{"an answer that says nothing", ledgertest.Truth, func(c *cluster) { c.answer("third", 409).Outcome = "" }},
		{"a fault of the server", ledgertest.Truth, func(c *cluster) { c.answer("first", 503).Status = 500 }},
		{"a repeated request has another answer than the first", ledgertest.OneAnswer, func(c *cluster) {
			a := *c.answer("first", 200)
			a.Body = []byte("something else")
			c.Answers = append(c.Answers, a)
		}},
		{"a payment counts twice", ledgertest.OneEffect, func(c *cluster) {
			c.do(func(tx *ledger.Tx) error {
				_, err := tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100, Payment: core.Payment{Method: "tempo", Network: network, Transaction: "0xfirst", Payer: "0x1"}}, nil)
				return err
			})
			c.end(c.store)
		}},
		{"two roots of one size", ledgertest.OneRoot, func(c *cluster) { c.resign(func(p *snap.Checkpoint) { p.Root[0]++; p.Time++ }) }},
		{"two states of one size", ledgertest.OneRoot, func(c *cluster) { c.resign(func(p *snap.Checkpoint) { p.State[0]++; p.Time++ }) }},
		{"a signed size that is not committed", ledgertest.NothingLost, func(c *cluster) { c.resign(func(p *snap.Checkpoint) { p.Size++; p.Time++ }) }},
		{"two checkpoints of one size and time", ledgertest.TimeOn, func(c *cluster) { c.resign(func(p *snap.Checkpoint) { p.ABI++ }) }},
		{"a new leader signs for earlier than the last one did", ledgertest.TimeOn, func(c *cluster) { c.resign(func(p *snap.Checkpoint) { p.Time -= 3 }) }},
		{"an edge goes back", ledgertest.TimeOn, func(c *cluster) { c.Checkpoints = append(c.Checkpoints, c.Checkpoints[0]) }},
		{"a reader is shown an earlier position", ledgertest.TimeOn, func(c *cluster) { c.Reads = append(c.Reads, c.Reads[0]) }},
		{"a payment is sent before it is reserved", ledgertest.Reserved, func(c *cluster) { c.Broadcasts[3].Head -= 1 }},
		{"a payment is sent and never reserved", ledgertest.Reserved, func(c *cluster) {
			c.Broadcasts = append(c.Broadcasts, ledgertest.Broadcast{Node: "two", Payment: "other"})
		}},
		{"money without an event", ledgertest.Balance, func(c *cluster) {
			c.Transfers = append(c.Transfers, ledgertest.Transfer{Network: network, Transaction: "0xother", Cents: 1})
		}},
		{"an event without money", ledgertest.Balance, func(c *cluster) { c.Transfers = c.Transfers[1:] }},
		{"a cent too much", ledgertest.Balance, func(c *cluster) { c.Transfers[0].Cents++ }},
	} {
		t.Run(v.name, func(t *testing.T) {
			c := lawful(t)
			v.plant(c)
			found, err := c.Check()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found, func(f ledgertest.Violation) bool { return f.Rule == v.rule }) {
				t.Errorf("not found: %s, but %v", v.rule, found)
			}
		})
	}
}

// TestFewViolationsOfARuleAreGiven: what is wrong in one place is wrong in many.
func TestFewViolationsOfARuleAreGiven(t *testing.T) {
	c := lawful(t)
	for i := range 100 {
		c.Broadcasts = append(c.Broadcasts, ledgertest.Broadcast{Node: "two", Payment: fmt.Sprint("other", i)})
	}
	if found, err := c.Check(); err != nil || len(found) != 20 || !strings.HasPrefix(found[0].String(), "reserved before sent: two sent payment other0") {
		t.Errorf("%d %v %v", len(found), err, found)
	}
}
