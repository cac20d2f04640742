package paid_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest/file"
)

// The ring takes payments by a method that it knows nothing of: each has its effect, and none has two.
func TestTheRingTakesAMethodThatIsAFile(t *testing.T) {
	lines, away := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "away")
	inRing(t, "file", func(t *testing.T, r *ring) {
		present := func(c mpp.Challenge, line string) string {
			payload, err := json.Marshal(map[string]string{"line": line})
			r.must(err)
			return r.present(mpp.Credential{Challenge: c, Payload: payload})
		}
		pay := func(c mpp.Challenge, cents int64) string {
			line, err := file.Write(lines, "0xa11ce", "purse", cents, file.Memo(c))
			r.must(err)
			return line
		}
		began := time.Now()
		c := r.challenge(paid.OpRegister, ada)
		// A line that was not written pays nothing, and a written one pays for its challenge alone.
		r.post(paid.OpRegister, ada, present(c, "0 0 0xa11ce purse 100 "+file.Memo(c))).is(402, api.VerificationFailed)
		r.has(amounts{"all": 0, "open": 0})
		line := pay(c, 100)
		r.post(paid.OpRegister, bob, present(r.challenge(paid.OpRegister, bob), line)).is(402, api.VerificationFailed)
		r.has(amounts{"all": 0, "open": 0})
		credential := present(c, line)
		r.post(paid.OpRegister, ada, credential).is(201, "")
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		r.has(amounts{"ada": 100, "all": 100, "open": 0})

		// The file is away from the reservation on, until after a restart.
		c = r.challenge(paid.OpRegister, bob)
		credential = present(c, pay(c, 100))
		r.onStep(func(at string) {
			if at == "reserved" {
				os.Rename(lines, away)
			}
		})
		r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending)
		r.has(amounts{"all": 100, "open": 1})
		r.onStep(nil)
		r.restart()
		r.must(os.Rename(away, lines))
		time.Sleep(time.Minute)
		r.has(amounts{"bob": 100, "all": 200, "open": 0})
		r.post(paid.OpRegister, bob, credential).is(201, "")
		r.post(paid.OpRegister, bob, credential).is(409, api.CredentialReused)

		// A line that is presented too late still has its effect.
		c = r.challenge(paid.OpBid, fund)
		credential = present(c, pay(c, 150))
		time.Sleep(time.Hour)
		r.post(paid.OpBid, fund, credential).is(200, "")
		r.has(amounts{"ada": 250, "all": 350, "open": 0})

		// A line that no request names is told to the operator.
		_, err := file.Write(lines, "0xb0b", "purse", 250, "gift")
		r.must(err)
		strays, err := r.service.Scan(t.Context(), began, false)
		if err != nil || len(strays) != 1 || strays[0].Missing != 250 || strays[0].Transfer.Payer != "0xb0b" {
			t.Errorf("%+v, %v", strays, err)
		}
		r.audited()
	}, func(r *ring) {
		r.must(os.WriteFile(lines, nil, 0o600))
		r.methods = func(*atomic.Bool) []paid.Method { return []paid.Method{file.Method{Path: lines, Account: "purse"}} }
	})
}
