package paid_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
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
		in(t, fmt.Sprint(c.outcome, c.fate.after), func(t *testing.T) {
			r := newRing(t)
			r.join(ada, "alice")
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
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
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
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		r.network.simulate = nil
		ch := r.challenge(paid.OpBid, fund)
		credential := r.sign(ch, "bob", 150)
		r.post(paid.OpBid, fund, credential).is(200, "")

		call := func(code api.Code, authorization ...string) (line string) {
			t.Helper()
			from := len(r.log.String())
			a := r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: authorization, IdempotencyKey: "a-key-of-mine-12345", Request: "request-9"})
			if a.code() != string(code) {
				t.Errorf("the code is %s", a.code())
			}
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
