package forward

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/share"
	"webring/edge/voucher"
)

const (
	// acquireTime bounds how long a request waits for its turn. It may have cost its
	// client a signature, but a client that waits for longer may have gone and paid
	// elsewhere.
	acquireTime = 2 * time.Second
	// crowdedTime is after how much of that another request has to stop waiting: crowds
	// that are answered soon cut no request short.
	crowdedTime = acquireTime / 4
	// stopTime is how long a request that has to stop waiting keeps its slot if the origin
	// does not answer it. With crowdedTime that is less than acquireTime.
	stopTime = acquireTime / 2
	// promptTime is how long a request without a payment may take for each [share.Piece] that
	// its client is charged.
	promptTime = 5 * time.Second
)

// slots bound how many requests are on their way to the origin at a time. They may be used
// concurrently.
type slots struct {
	*share.Semaphore
	past *share.Past // where clients are charged for the time of a slot; nil: nowhere

	mu   sync.Mutex
	held []*holder // the longest held first
}

// holder is a request that has a slot, or waits for one.
type holder struct {
	asker    share.Asker
	account  string // that pays, as the request names it; "" for none
	stop     func() // has the request stop waiting for its answer; nil where that is not possible
	stopping bool   // stop was called; guarded by slots.mu
	began    time.Time
}

// newSlots gives slots that are shared by a rule, at most each of them to one client.
func newSlots(r share.Rule, each int) *slots {
	return &slots{Semaphore: share.NewSemaphore(r, each), past: r.Past}
}

// acquire reports whether a request has a slot, which release gives back. It waits while
// others have all, but not for the client's own, and has one of the others stop waiting.
func (s *slots) acquire(h *holder) bool {
	crowded := time.AfterFunc(crowdedTime, s.stopOne)
	defer crowded.Stop()
	waits, cancel := context.WithTimeout(context.Background(), acquireTime)
	defer cancel()
	if s.Acquire(waits, h.asker) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.began = time.Now()
	s.held = append(s.held, h)
	return true
}

func (s *slots) release(h *holder) {
	s.past.ChargeTime(h.asker, time.Since(h.began), promptTime)
	s.mu.Lock()
	s.held = slices.DeleteFunc(s.held, func(other *holder) bool { return other == h })
	s.mu.Unlock()
	s.Release(h.asker)
}

// stopOne has a request stop waiting for its answer: of the client that weighs most by its slots and those of
// the networks around it, and of its account with most, the one held longest. So a few
// clients or networks that hold all slots make room for each other, and a client with one
// slot keeps it.
//
// Accounts are counted within a client only. The account that a request names is not
// verified, and a client must not be able to end the requests of another one by naming its
// account.
func (s *slots) stopOne() {
	s.mu.Lock()
	defer s.mu.Unlock()
	type payer struct {
		asker   share.Asker
		account string
	}
	clients, payers := share.NewShares(share.Rule{Most: -1}), map[payer]int{}
	for _, h := range s.held {
		if !h.stopping {
			clients.Take(h.asker)
			payers[payer{h.asker, h.account}]++
		}
	}
	most := func(a, b *holder) int {
		return cmp.Or(clients.Weight(a.asker)-clients.Weight(b.asker),
			payers[payer{a.asker, a.account}]-payers[payer{b.asker, b.account}])
	}
	var first *holder
	for _, h := range s.held {
		if h.stop != nil && !h.stopping && (first == nil || most(h, first) > 0) {
			first = h
		}
	}
	if first != nil {
		first.stopping = true
		first.stop()
	}
}

const (
	maxCredential = 16 << 10 // as the origin has it, in characters
	maxAccount    = 128      // longer than the name of any account on a payment network
)

// payingAccount gives the account that the credential of a request names as its payer, ""
// where it names none or cannot be read. It is not verified here. The origin refuses a credential
// whose source is not the account that pays.
//
// Document: draft-httpauth-payment-00, "source".
func payingAccount(h *fasthttp.RequestHeader) string {
	lines := h.PeekAll("Authorization")
	if len(lines) == 0 {
		return payingAddress(h)
	}
	if len(lines) != 1 || len(lines[0]) > maxCredential {
		return ""
	}
	scheme, token, _ := strings.Cut(string(lines[0]), " ")
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "Payment") {
		return ""
	}
	var credential struct {
		Source string `json:"source"`
	}
	if json.Unmarshal(text, &credential) != nil || len(credential.Source) > maxAccount {
		return ""
	}
	return strings.ToLower(credential.Source) // the origin takes any case
}

// payingAddress gives the account that an x402 payment names as its payer, in the form of
// payingAccount. It is not verified here either: the origin checks the signature, and for a smart
// account it asks the chain.
func payingAddress(h *fasthttp.RequestHeader) string {
	network, from := x402Payer(h)
	account := "did:pkh:" + network + ":" + from
	if from == "" || len(account) > maxAccount {
		return ""
	}
	return strings.ToLower(account)
}

// errStopped ends a request that had to stop waiting, and that the origin did not answer in
// time.
var errStopped = errors.New("forward: another request needs the slot")

// stop has a request stop waiting for its outcome. If the origin does not answer it in time,
// drop ends it.
func (f *Forwarder) stop(r *outgoing, drop func()) {
	if mayLog(&f.crowds) {
		f.log.Warn("forward: payments are answered before they have an outcome: others need their slots on the way to the origin")
	}
	time.AfterFunc(stopTime, drop)
	if f.cfg.Secrets != nil {
		go f.askToStop(r)
	}
}

// askToStop asks the origin that has the request to answer it now.
func (f *Forwarder) askToStop(r *outgoing) {
	at := r.at.Load()
	if at == nil {
		at = f.origins.Current()
	}
	if at == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.open, stopTime)
	defer cancel()
	ask := f.to(ctx, at, r)
	ask.Header.Set(voucher.StopField, "1")
	res, err := f.transport.RoundTrip(ask)
	if err != nil {
		f.log.Warn("forward: the origin was not asked to answer a payment early", "origin", at.URL, "err", err)
		return
	}
	res.Body.Close()
}

// passStop passes on what an edge asks by [voucher.StopField].
func (f *Forwarder) passStop(ctx *fasthttp.RequestCtx, client string, secure bool) {
	r, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return
	}
	f.askToStop(r)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}
