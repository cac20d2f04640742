package ledgertest

import (
	"fmt"

	"webring/server/ledger"
)

// History is what was seen of one run. Fields may be empty: what was not seen is not
// checked.
type History struct {
	// Nodes are the ledgers that were found in the end, at least one.
	Nodes []Node
	// Begin are the rows that all nodes had before Log, and Log are the groups of the
	// replicated log in the order in which an observer got them, repetitions included.
	Begin ledger.Batch
	Log   []Entry
	// Writes are all that was ever written to the log, as an observer of its keys saw it.
	Writes []Write
	// Answers are those to paid requests, in any order.
	Answers []Answer
	// Reads are positions that readers were shown, and Checkpoints the signed texts that
	// followers were given. Those of one Source are in the order in which it was seen.
	Reads       []Read
	Checkpoints []Checkpoint
	// Broadcasts are the payments that nodes sent to a network.
	Broadcasts []Broadcast
	// Transfers are all that the ring's accounts have received by payments.
	Transfers []Transfer
}

// Node is one node in the end.
type Node struct {
	Name  string
	Books *ledger.Ledger // of a copy of what it has stored
	// Behind says that the node was down or cut off in the end: it may lack the newest
	// transactions. All others have to have every one that was acknowledged.
	Behind bool
}

// Entry is one group of the replicated log.
type Entry struct {
	Serial uint64
	Rows   ledger.Batch
}

// Write is what was written under the serial number of a group, sealed as it may be.
type Write struct {
	Serial uint64
	Value  string
}

// Answer is what a client was told about a payment: the answer to a request that brought
// its credential.
type Answer struct {
	Node        string // that answered
	Payment     string // id of the challenge
	Transaction string // that the client signed, where that is known to it
	Cents       int64  // that the client signed for
	Status      int
	Code        string // of a problem
	Outcome     string // of a problem: applied, failed or pending
	Position    uint64 // how many events the answer says that there are, 0 if it does not
	Body        []byte
}

// Read is a position that a reader was shown.
type Read struct {
	Source   string // a process; one that was started again is another source
	Position uint64
}

// Checkpoint is the text of a signed checkpoint. Its signature was verified.
type Checkpoint struct {
	Source string // a process
	Text   string
}

// Broadcast is a payment on its way to a network.
type Broadcast struct {
	Node    string
	Payment string // id of the challenge
	// Head is the serial number up to which the replicated log was committed when the
	// broadcast began. Without a Log it has no meaning.
	Head uint64
}

// Transfer is money that came.
type Transfer struct {
	Network, Transaction string
	Cents                int64
}

// Rule names a promise.
type Rule string

// The promises.
const (
	OneHistory  Rule = "one history"          // each store is a prefix of the longest
	OneContent  Rule = "one content"          // no serial number has two contents
	NothingLost Rule = "nothing lost"         // what was acknowledged is in every store
	Truth       Rule = "truth"                // what a client was told is so
	OneAnswer   Rule = "one answer"           // a repeated request gets the stored answer
	OneEffect   Rule = "one effect"           // no payment counts twice
	OneRoot     Rule = "one root"             // one root for each signed size, that of the events
	TimeOn      Rule = "time on"              // signed times and positions never go back
	Reserved    Rule = "reserved before sent" // a reservation is committed before its broadcast
	Balance     Rule = "balance"              // the books have what the chain has
)

// Violation is one promise that was not kept.
type Violation struct {
	Rule Rule
	What string
}

func (v Violation) String() string { return string(v.Rule) + ": " + v.What }

// mostOfARule bounds how many violations of one rule are given: what is wrong in one
// place is wrong in many.
const mostOfARule = 20

// checker is what a check has found so far.
type checker struct {
	*History
	violations []Violation
	counts     map[Rule]int

	nodes   []*found // by how far they are
	longest *found
	events  []event // of longest
}

// Check gives what the history violates, at most twenty of each rule. An error means that
// a ledger could not be read.
func (h *History) Check() ([]Violation, error) {
	c := &checker{History: h, counts: map[Rule]int{}}
	for _, check := range []func() error{c.read, c.stores, c.log, c.answers, c.checkpoints, c.broadcasts, c.transfers} {
		if err := check(); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	return c.violations, nil
}

func (c *checker) violated(r Rule, format string, args ...any) {
	if c.counts[r]++; c.counts[r] <= mostOfARule {
		c.violations = append(c.violations, Violation{r, fmt.Sprintf(format, args...)})
	}
}
