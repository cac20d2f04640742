package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
	"webring/server/pay/x402"
)

// doomed starts the process anew, so that it ends at a step of the paid path.
func (s *shop) doomed(step string) {
	s.t.Helper()
	s.stop()
	s.env = []string{"WEBRING_FAILPOINT=" + step}
	s.launch()
	s.env = nil
}

// dies presents a payer's credential to a process that is to end over it, and gives
// it and what it answers.
func (s *shop) dies(payer paytest.EVM, path, body string, alter ...paytest.EVMAlter) (challenge mpp.Challenge, credential string) {
	s.t.Helper()
	s.diesOver(path, body, func() string {
		challenge = s.offer(path, body)
		credential = payer.Header(challenge, alter...)
		return credential
	})
	return challenge, credential
}

// diesExactly is dies for a payment by x402.
func (s *shop) diesExactly(payer paytest.EVM, path, body string) (payment paytest.Exact) {
	s.t.Helper()
	s.diesOver(path, body, func() string {
		payment = payer.Exact(s.exact(path, body))
		return payment.Header()
	})
	return payment
}

func (s *shop) diesOver(path, body string, sign func() (credential string)) {
	s.t.Helper()
	eventually(s.t, "a look at a credential before it runs out", longEnough, func() bool {
		credential := sign()
		r, err := s.try(http.MethodPost, path, []byte(body), credentialField(credential), credential, "Content-Type", "application/json")
		if err == nil && !ranOut(r) {
			s.t.Fatalf("the process answered %d instead of ending: %s", r.Status, r.Body)
		}
		return err != nil
	})
	s.waitGone()
}

// answered presents the credential until its payment is decided.
func (s *shop) answered(path, body, credential string) (r reply) {
	s.t.Helper()
	eventually(s.t, "the outcome", time.Minute, func() bool {
		r = s.present(path, body, credential)
		if r.Status == 503 && r.code(s.t) != "payment_pending" {
			s.t.Fatalf("503 %s\n%s", r.Body, s.log)
		}
		return r.Status != 503
	})
	return r
}

// TestPowerFailsWhileAnAuthorizationIsSubmitted ends the process around the one
// step that costs money. Whatever the chain has seen by then, the next process
// comes to one effect and one transfer, and submits nothing that is not needed.
func TestPowerFailsWhileAnAuthorizationIsSubmitted(t *testing.T) {
	t.Parallel()
	mined := func(s *shop, _ []byte) {
		eventually(s.t, "the transaction", time.Minute, func() bool { return s.authorized() == 100 })
	}
	for _, c := range []struct {
		name, step string
		exact      bool // by x402
		meanwhile  func(s *shop, submission []byte)
		most       uint64 // transactions of the gas account
	}{
		{"before it is submitted", "reserved", false, func(*shop, []byte) {}, 1},
		{"just after", "broadcast", false, func(*shop, []byte) {}, 2},
		{"and it is mined meanwhile", "broadcast", false, mined, 1},
		{"and somebody else submits it", "reserved", false, func(s *shop, submission []byte) { s.submit(submission) }, 0},
		{"with the receipt in hand", "receipt", false, func(*shop, []byte) {}, 1},
		{"by x402, and it is mined meanwhile", "broadcast", true, mined, 1},
		{"by x402, and somebody else submits it", "reserved", true, func(s *shop, submission []byte) { s.submit(submission) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := evmShop(t)
			const path, body = "/api/register", `{"name":"Phoenix","url":"https://phoenix.dev/","kind":"agent"}`
			s.doomed(c.step)
			payer := s.payer()
			var credential string
			if c.exact {
				payment := s.diesExactly(payer, path, body)
				credential = payment.Header()
				c.meanwhile(s, payment.Submission())
			} else {
				var challenge mpp.Challenge
				challenge, credential = s.dies(payer, path, body)
				c.meanwhile(s, payer.Submission(challenge))
			}
			s.launch()
			if r := s.answered(path, body, credential); r.Status != 201 || r.Header.Get("Payment-Receipt") == "" || c.exact != (r.Header.Get(x402.ResponseField) != "") {
				t.Fatalf("%d %s\n%s", r.Status, r.Body, s.log)
			}
			s.confirmed()
			if s.authorized() != 100 || s.submissions() > c.most {
				t.Errorf("%d cents in %d transactions of ours, want 100 in at most %d\n%s", s.authorized(), s.submissions(), c.most, s.log)
			}
			if r := s.present(path, body, credential); r.Status != 409 || r.code(t) != "credential_reused" {
				t.Errorf("again: %d %s", r.Status, r.Body)
			}
			if total := at(t, s.get("/api/leaderboard").document(t), "leaderboard", 0, "paid_total_usd"); total != "1.00" {
				t.Errorf("total %v", total)
			}
		})
	}
}

// TestAuthorizationsOvertakenByTheirPayers holds what comes of an authorisation
// that its payer submits, cancels or lets run out while it is reserved.
func TestAuthorizationsOvertakenByTheirPayers(t *testing.T) {
	t.Parallel()
	const path, body = "/api/register", `{"name":"Hasty","url":"https://hasty.dev/","kind":"agent"}`

	t.Run("submitted before it is presented", func(t *testing.T) {
		t.Parallel()
		s := evmShop(t)
		payer, challenge := s.payer(), s.offer(path, body)
		s.submit(payer.Submission(challenge))
		if r := s.present(path, body, payer.Header(challenge)); r.Status != 201 {
			t.Errorf("%d %s\n%s", r.Status, r.Body, s.log)
		}
		if s.authorized() != 100 || s.submissions() != 0 {
			t.Errorf("%d cents in %d transactions of ours, want 100 in none", s.authorized(), s.submissions())
		}
	})
	t.Run("cancelled before it is presented", func(t *testing.T) {
		t.Parallel()
		s := evmShop(t)
		payer, challenge := s.payer(), s.offer(path, body)
		s.submit(payer.Cancellation(challenge))
		credential := payer.Header(challenge)
		eventually(t, "a block that decides", longEnough, func() bool {
			r := s.present(path, body, credential)
			if r.code(t) == "payment_pending" {
				return false
			}
			if r.Status != 402 || r.code(t) != "verification_failed" {
				t.Fatalf("%d %s\n%s", r.Status, r.Body, s.log)
			}
			return true
		})
	})
	for name, c := range map[string]struct {
		alter     []paytest.EVMAlter
		meanwhile func(s *shop, payer paytest.EVM, cancellation, diverted []byte)
	}{
		"cancelled":                           {nil, func(s *shop, _ paytest.EVM, cancellation, _ []byte) { s.submit(cancellation) }},
		"its nonce used to pay somebody else": {nil, func(s *shop, _ paytest.EVM, _, diverted []byte) { s.submit(diverted) }},
		"run out, its money gone": {[]paytest.EVMAlter{paytest.ValidFor(30 * time.Second)}, func(s *shop, payer paytest.EVM, _, _ []byte) {
			s.endow(payer, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := evmShop(t)
			s.doomed("reserved")
			payer := s.payer()
			challenge, credential := s.dies(payer, path, body, c.alter...)
			c.meanwhile(s, payer, payer.Cancellation(challenge),
				payer.Submission(challenge, func(d *paytest.EVMDraft) { d.To = payer.Address(); d.To[0]++ }))
			s.launch()
			r := s.answered(path, body, credential)
			if r.Status != 409 || r.code(t) != "credential_reused" || at(t, r.document(t), "outcome") != "failed" {
				t.Errorf("%d %s\n%s", r.Status, r.Body, s.log)
			}
			if s.authorized() != 0 || s.submissions() != 0 {
				t.Errorf("%d cents in %d transactions of ours, want none", s.authorized(), s.submissions())
			}
			if out, err := s.operate("version"); err != nil || !strings.Contains(out, "0 open reservations") {
				t.Errorf("version: %v %s", err, out)
			}
			// The URL is free again, for another account.
			if r := s.present(path, body, s.payer().Header(s.offer(path, body))); r.Status != 201 {
				t.Errorf("another payer: %d %s", r.Status, r.Body)
			}
		})
	}
}

// ranOut reports whether the credential had expired when it was read, as on a slow machine.
// Then nothing has happened.
func ranOut(r reply) bool {
	return r.Status == 402 && strings.Contains(string(r.Body), `"payment_expired"`)
}
