package paid_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// lines gives the lines of the log with an attribute.
func (r *ring) lines(attribute string) (found []string) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, " "+attribute+" ") {
			found = append(found, line)
		}
	}
	return found
}

// says fails unless a line has all of these attributes.
func (r *ring) says(line string, attributes ...string) {
	r.t.Helper()
	for _, a := range attributes {
		if !strings.Contains(strings.TrimSuffix(line, "\n")+" ", " "+a+" ") {
			r.t.Errorf("no %s in %s", a, line)
		}
	}
}

// tookMS reads how long a payment took, -1 where the line does not say it.
func tookMS(line string) int {
	_, rest, _ := strings.Cut(line, " took_ms=")
	took := -1
	fmt.Sscan(rest, &took)
	return took
}

// Each payment has one line, whatever becomes of it, with the id of the request that
// brought it; and a request that is refused has one.
func TestEveryOutcomeHasOneLine(t *testing.T) {
	for _, c := range []struct {
		fate          fate
		status        int
		code          api.Code
		outcome, line string
	}{
		{fate{}, 200, "", "applied", "INFO"},
		{fate{after: 3 * time.Second}, 200, "", "applied", "INFO"},
		{fate{state: mpp.Failed}, 402, api.VerificationFailed, "failed", "WARN"},
		{fate{state: mpp.Gone}, 402, api.VerificationFailed, "gone", "WARN"},
		{fate{state: mpp.Mismatched}, 409, api.PaymentMismatch, "mismatched", "WARN"},
	} {
		inAdasRing(t, fmt.Sprint(c.outcome, c.fate.after), func(t *testing.T, r *ring) {
			r.network.fates["bob"] = c.fate
			ch := r.challenge(paid.OpBid, fund)
			before := len(r.lines("audit=payment"))
			r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(ch, "bob", 150)}, Request: "request-7"}).is(c.status, c.code)
			lines := r.lines("audit=payment")[before:]
			if len(lines) != 1 || len(r.lines("audit=refusal")) != 0 {
				t.Fatalf("%q, %q", lines, r.lines("audit=refusal"))
			}
			r.says(lines[0], "level="+c.line, "payment="+ch.ID, "operation=bid", "member=ada", "amount_usd=1.50", "method=coin", "payer=bob",
				"outcome="+c.outcome, "request=request-7")
			if took := time.Duration(tookMS(lines[0])) * time.Millisecond; took < c.fate.after || took > c.fate.after+time.Second {
				t.Errorf("it took %s: %s", took, lines[0])
			}
			for _, name := range []string{" network=", " transaction="} {
				if _, value, _ := strings.Cut(lines[0], name); value == "" || value[0] == ' ' || value[0] == '"' {
					t.Errorf("no%s in %s", name, lines[0])
				}
			}
		})
	}
}

// A payment that the next process finishes has its line there, with the id of the request
// and the time since that came.
func TestAnOutcomeAfterARestartHasItsLine(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["bob"] = fate{after: 4 * time.Second}
		ch := r.challenge(paid.OpBid, fund)
		next := r.failAt("broadcast")
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(ch, "bob", 150)}, Request: "request-8"})
		time.Sleep(6 * time.Second)
		before := len(r.lines("audit=payment"))
		next()
		time.Sleep(10 * time.Second)
		lines := r.lines("audit=payment")[before:]
		if len(lines) != 1 {
			t.Fatalf("%q", lines)
		}
		r.says(lines[0], "payment="+ch.ID, "outcome=applied", "member=ada", "request=request-8")
		if took := tookMS(lines[0]); took < 6000 || took > 16_000 {
			t.Errorf("%s", lines[0])
		}
		for _, o := range r.open() {
			t.Errorf("%v is open", o.ID)
		}
	})
}

func TestEveryRefusalHasOneLine(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.simulate = nil
		ch := r.challenge(paid.OpBid, fund)
		credential := r.sign(ch, "bob", 150)
		r.post(paid.OpBid, fund, credential).is(200, "")

		call := func(code api.Code, authorization ...string) (line string) {
			t.Helper()
			from := len(r.log.String())
			a := r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: authorization, IdempotencyKey: "a-key-of-mine-12345", Request: "request-9"})
			same(t, a.code(), string(code))
			text := strings.TrimSpace(r.log.String()[from:])
			if strings.Count(text, "\n") != 0 || !strings.Contains(text, " code="+string(code)+" ") || !strings.Contains(text, "request=request-9") || strings.Contains(text, "a-key-of-mine") {
				t.Errorf("%s: the log says %q", code, text)
			}
			return text
		}
		r.says(call(api.MalformedCredential, "Payment !!!"), `msg="credential refused"`, "level=INFO")
		r.says(call(api.CredentialReused, credential), `msg="credential refused"`, "payment="+ch.ID)
		late := r.challenge(paid.OpBid, fund)
		expired := r.sign(late, "bob", 150)
		time.Sleep(paid.ChallengeLife + time.Minute)
		r.says(call(api.PaymentExpired, expired), "audit=refusal", `msg="payment refused"`, "payment="+late.ID, "method=coin", "payer=bob", "amount_usd=1.50", "reason="+string(mpp.ReasonExpired))
		r.says(call(api.PaymentRequired), "level=DEBUG", `msg="payment asked for"`, "amount_usd=1.50")
	})
}

// stubborn presents a credential until it is told what became of it, and starts
// the next process when one has ended.
func (r *ring) stubborn(op, body, credential string) answer {
	r.t.Helper()
	for range 100 {
		a := r.post(op, body, credential)
		synctest.Wait()
		r.revive()
		if a.Status != 503 {
			return a
		}
		time.Sleep(time.Second)
	}
	r.t.Fatal("a payment without an end")
	return answer{}
}

// revive starts the next process if the ledger of this one has ended.
func (r *ring) revive() {
	r.t.Helper()
	if r.books.Err() == nil {
		return
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.service.Close(ended)
	r.dead.Store(true)
	r.start(r.store, r.headBytes(r.process))
}

// Each write of a whole life fails once, stored or not: two registrations, a
// bid, their confirmation, and the note of the daily scan. Whichever it is,
// everybody gets what was paid for, once, and pays once.
func TestEveryWriteFailsOnce(t *testing.T) {
	for _, fault := range []ledgertest.Fault{ledgertest.FailNotStored, ledgertest.FailButStored} {
		for commit, more := 1, true; more; commit++ {
			inRing(t, fmt.Sprintf("fault %d of write %d", fault, commit), func(t *testing.T, r *ring) {
				for _, payer := range []string{"alice", "bob", "carol"} {
					r.network.fates[payer] = fate{after: 2 * time.Second, shallow: true}
				}
				synctest.Wait()
				before := r.store.Commits()
				r.store.FailAt(commit, fault)
				pay := func(op, body, payer string, cents int64) {
					t.Helper()
					credential := r.sign(r.challenge(op, body), payer, cents)
					a := r.stubborn(op, body, credential)
					if a.Status >= 300 && (a.Status != 409 || a.member("outcome") != "applied") {
						t.Fatalf("%s is told %d %s", payer, a.Status, a.Body)
					}
				}
				pay(paid.OpRegister, ada, "alice", 100)
				pay(paid.OpRegister, bob, "bob", 100)
				pay(paid.OpBid, fund, "carol", 150)
				r.network.change(func() {
					for payer := range r.network.fates {
						r.network.fates[payer] = fate{after: 2 * time.Second}
					}
				})
				for _, pause := range []time.Duration{time.Minute, 25 * time.Hour, time.Hour} {
					time.Sleep(pause)
					synctest.Wait()
					r.revive()
				}
				r.has(amounts{"ada": 250, "bob": 100, "all": 350})
				for payer, want := range map[string]int64{"alice": 100, "bob": 100, "carol": 150} {
					same(t, r.network.charged(payer), want)
				}
				if len(r.open()) != 0 || r.unconfirmed() != 0 {
					t.Errorf("%d open, %d to confirm", len(r.open()), r.unconfirmed())
				}
				var scanned time.Time
				r.look(func(v *ledger.View) { scanned, _ = v.Scanned("coin:test") })
				if scanned.IsZero() {
					t.Error("no scan was noted")
				}
				r.audited()
				more = r.store.Commits()-before >= commit
			})
		}
	}
}
