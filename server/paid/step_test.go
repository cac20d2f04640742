package paid

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// TestStep runs the table of the package documentation: each fact at each state, with what becomes of
// the payment, what is done, and what its payer is told.
func TestStep(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "//\twhat is known")
	table, _, _ = strings.Cut(table, "\n//\n")
	lines := strings.Split(table, "\n")[2:]
	known := map[string]bool{}
	for _, line := range lines {
		cells := strings.Split(strings.TrimPrefix(line, "//\t"), "|")
		if len(cells) != 1+len(states) {
			t.Fatalf("%q has %d cells", line, len(cells))
		}
		name := strings.TrimSpace(cells[0])
		set, ok := stepFacts[name]
		if !ok || known[name] {
			t.Errorf("%q is no fact of this test, or stands twice", name)
			continue
		}
		known[name] = true
		for s := range states {
			r, f := rowAt(state(s)), factsAt()
			set(&r, &f)
			if got, want := stepped(r, f), strings.TrimSpace(cells[1+s]); got != want {
				t.Errorf("%s, %s: %q, and the table says %q", states[s], name, got, want)
			}
		}
	}
	for name := range stepFacts {
		if !known[name] {
			t.Errorf("the table lacks %q", name)
		}
	}
}

// stepped is a cell of the table.
func stepped(r row, f facts) string {
	next, do := step(r, f)
	told := "2xx"
	if no := next.answer(waiting, ""); no == f.refused && no != nil {
		told = "as refused"
	} else if no != nil {
		told = fmt.Sprint(no.Code.Status(), " ", no.Code)
	}
	return fmt.Sprintf("%s → %s, %s", do, next.state(), told)
}

var stepNow = time.Unix(1_000_000, 0)

// rowAt is a payment in a state, before its end.
func rowAt(s state) row {
	r := row{Reservation: ledger.Reservation{Operation: OpBid, Cents: 100, Member: "ada", Body: []byte("words"), Pinned: []byte("{}")},
		payment: mpp.Payment{Cents: 100, Raw: []byte("signed"), Reference: "0x01", Binding: "bound", ValidBefore: stepNow.Add(20 * time.Second)}}
	switch s {
	case sent:
		r.State = ledger.Reserved
	case settled, final:
		r.State, r.Confirmed, r.Outcome = ledger.Applied, s == final, mpp.Settled.String()
	}
	return r
}

// factsAt are those of a payment that a gate refuses for a rank, and of which its network does not know yet.
func factsAt() facts {
	return facts{now: stepNow, refused: &Problem{Code: api.RankTaken}, claim: claimed{realm: true, payee: true, request: true}}
}

func has(state mpp.State, deep bool) mpp.Outcome {
	return mpp.Outcome{State: state, Deep: deep, Detail: "as it says"}
}

// overdue is the time after which a payment can no longer be mined, at a network that works.
func overdue(r *row, f *facts) {
	f.now = r.payment.ValidBefore.Add(holdAfter + time.Second)
	f.block = f.now
}

func impossible(never bool) books {
	return books{impossible: &Problem{Code: api.MemberRemoved}, never: never}
}

var stepFacts = map[string]func(*row, *facts){
	"no gate refuses it":         func(_ *row, f *facts) { f.refused = nil },
	"its network is silent":      func(_ *row, f *facts) { f.silent, f.tried = true, true },
	"it is not mined":            func(*row, *facts) {},
	"not mined, and just sent":   func(_ *row, f *facts) { f.tried = true },
	"not mined, and gas barred":  func(_ *row, f *facts) { f.barred = true },
	"not mined, and it was used": func(_ *row, f *facts) { f.refused.Reason = mpp.ReasonUsed },
	"not mined, its time over":   overdue,
	"the same, without an end": func(r *row, f *facts) {
		r.payment.Endless = true
		overdue(r, f)
	},
	"the same, for an hour": func(r *row, f *facts) {
		r.payment.Endless, f.waited = true, true
		overdue(r, f)
		if r.state() == sent {
			r.Lapsed = stepNow
		}
	},
	"it had settled, silent now": func(_ *row, f *facts) { f.had, f.silent, f.tried = true, true, true },
	"it had settled, gone now":   func(_ *row, f *facts) { f.had, f.tried = true, true },
	"settled":                    func(_ *row, f *facts) { f.said = has(mpp.Settled, false) },
	"settled, deep":              func(_ *row, f *facts) { f.said = has(mpp.Settled, true) },
	"its event is back": func(_ *row, f *facts) {
		f.said, f.books.event = has(mpp.Settled, false), &core.Bid{Member: "ada", Amount: 100}
	},
	"settled, money given": func(_ *row, f *facts) {
		f.said, f.books.given = has(mpp.Settled, false), 100
	},
	"deep, money given": func(_ *row, f *facts) { f.said, f.books.given = has(mpp.Settled, true), 100 },
	"the same, and no more": func(_ *row, f *facts) {
		f.said, f.books.given, f.books.brought = has(mpp.Settled, true), 100, 100
	},
	"the same, and some more": func(_ *row, f *facts) {
		f.said, f.books.given, f.books.brought = has(mpp.Settled, true), 100, 200
		f.said.Received = 200
	},
	"given by the operator": func(_ *row, f *facts) {
		f.said, f.books = has(mpp.Settled, true), books{given: 100, brought: 100, adjusted: true}
	},
	"lapsed, and not now": func(r *row, f *facts) {
		f.said, f.books = has(mpp.Settled, true), impossible(false)
		r.Lapsed = stepNow
	},
	"lapsed, and never": func(r *row, f *facts) {
		f.said, f.books = has(mpp.Settled, false), impossible(true)
		r.Lapsed = stepNow
	},
	"deep, and never": func(r *row, f *facts) {
		f.said, f.books = has(mpp.Settled, true), impossible(true)
		r.Lapsed = stepNow
	},
	"settled to a stranger": func(_ *row, f *facts) { f.said, f.claim.payee = has(mpp.Settled, true), false },
	"settled, of a bearer": func(r *row, f *facts) {
		f.said, r.payment.Bearer = has(mpp.Settled, true), true
	},
	"settled for another ring": func(_ *row, f *facts) { f.said, f.claim.realm = has(mpp.Settled, true), false },
	"settled for another request": func(_ *row, f *facts) {
		f.said, f.claim.request = has(mpp.Settled, true), false
	},
	"mined and reverted":         func(_ *row, f *facts) { f.said = has(mpp.Failed, true) },
	"mined, paid somebody else":  func(_ *row, f *facts) { f.said = has(mpp.Mismatched, true) },
	"can never be mined":         func(_ *row, f *facts) { f.said = has(mpp.Gone, true) },
	"the operator accounted for": func(_ *row, f *facts) { f.accounts = ReasonAdjusted },
}

// TestGates compares the table of gates in the package documentation with that in the code.
func TestGates(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("//\t%-12s", "gate")
	for _, m := range moments {
		want += fmt.Sprintf("| %-11s", m)
	}
	for _, g := range gates {
		want += fmt.Sprintf("\n//\t%-12s", g.name)
		for i := range moments {
			want += fmt.Sprintf("| %-11s", map[bool]string{true: "asked"}[g.at&(1<<i) != 0])
		}
	}
	var lines []string
	for line := range strings.Lines(want) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if want = strings.Join(lines, "\n"); !strings.Contains(string(text), want) {
		t.Errorf("the package documentation lacks\n%s", want)
	}
}
