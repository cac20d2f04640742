// Package voucher has the field Webring-Edge, by which an edge names the client of a
// request that it forwards. Only holders of the shared secret can write it.
//
//	Webring-Edge: t=1760000000123; n=NONCE; c=192.0.2.1; s=https; m=MAC
//
// t is when it was written, in milliseconds since 1970; n 16 random bytes; c
// the client as [front.Client.String] names it; s the scheme that the client
// spoke. MAC is HMAC-SHA256 over the lines
//
//	webring-edge 1
//	t
//	n
//	c
//	s
//	method
//	request target, as it was sent
//	SHA-256 of the body
//
// each ended by a line feed. n, MAC and the body's digest are base64url without padding.
// The field has this one spelling. A voucher is valid once, and within 90 seconds of t. It
// is not valid if t is before the start of the process that takes it, which does not know
// what an earlier process took. The start is computed from the present time and the
// uptime, as the clock may have been set since. While [Secrets] are rotated, a voucher made
// with either of them is valid.
package voucher

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webring/edge/front"
)

const (
	// Field carries the voucher.
	Field = "Webring-Edge"
	// StopField is read with a voucher only. It asks the origin to answer now a payment
	// that it holds, the one with the same credential and body, because the edge needs its
	// slot. The payer is told to send the request again, and then gets the outcome.
	StopField = "Webring-Let-Go"
	// ToLeaderField is read with a voucher only. A node of a cluster sets it when it passes a
	// request on to the one that leads. A node that does not lead answers not_leader then,
	// and does not pass the request on again.
	ToLeaderField = "Webring-To-Leader"
)

// Life is how far the clocks of edge and origin may be apart, transit included. Payments are taken
// by clocks that are off by a minute.
const Life = 90 * time.Second

// Why a voucher does not count.
var (
	errForm     = errors.New("voucher: malformed")
	errForged   = errors.New("voucher: wrong MAC")
	errStale    = errors.New("voucher: from another time")
	errReplayed = errors.New("voucher: seen before")
	errEarlier  = errors.New("voucher: from before this process began, which may have been used then")
)

// Request is what a voucher is about.
type Request struct{ Method, Target, Body []byte }

// Sender is the client of a request and its scheme, as a voucher says.
type Sender struct {
	Client front.Client
	HTTPS  bool
}

// ForOwn gives a function that adds a voucher to a request of this process's own, which
// has no body. The function may be called concurrently.
func ForOwn(secrets *Secrets) (func(*http.Request), error) {
	if err := secrets.Check(); err != nil {
		return nil, err
	}
	return func(r *http.Request) {
		about := Request{[]byte(r.Method), []byte(r.URL.RequestURI()), nil}
		r.Header.Set(Field, New(secrets.Current(), time.Now(), front.Client{}.String(), r.URL.Scheme == "https", about))
	}, nil
}

// New writes the field for a request of a client, as [front.Client.String] names it.
func New(secret []byte, now time.Time, client string, secure bool, r Request) string {
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	scheme := "http"
	if secure {
		scheme = "https"
	}
	t, n := strconv.FormatInt(now.UnixMilli(), 10), base64.RawURLEncoding.EncodeToString(nonce[:])
	mac := base64.RawURLEncoding.EncodeToString(sign(secret, t, n, client, scheme, r))
	return "t=" + t + "; n=" + n + "; c=" + client + "; s=" + scheme + "; m=" + mac
}

func sign(secret []byte, t, n, client, scheme string, r Request) []byte {
	body := sha256.Sum256(r.Body)
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "webring-edge 1\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n", t, n, client, scheme, r.Method, r.Target,
		base64.RawURLEncoding.EncodeToString(body[:]))
	return h.Sum(nil)
}

// Verifier takes vouchers, each once. It may be used concurrently.
type Verifier struct {
	secrets *Secrets
	now     func() time.Time
	uptime  func() time.Duration // by the monotonic clock

	mu sync.Mutex
	// The MACs of vouchers taken lately. seen is filled for two lifetimes, which is as long
	// as a voucher can be valid, and then is before for as long again. Only holders of the
	// secret can fill them.
	seen, before map[[16]byte]struct{}
	since        time.Time
}

// NewVerifier prepares a verifier. The process begins now.
func NewVerifier(secrets *Secrets, now func() time.Time) (*Verifier, error) {
	if err := secrets.Check(); err != nil {
		return nil, err
	}
	start := now()
	uptime := func() time.Duration { return now().Sub(start) }
	return &Verifier{secrets: secrets, now: now, uptime: uptime, seen: map[[16]byte]struct{}{}, since: start}, nil
}

// Take gives the sender of the request r, which came with these lines of the field.
func (v *Verifier) Take(lines [][]byte, r Request) (Sender, error) {
	if len(lines) != 1 {
		return Sender{}, errForm
	}
	parts := strings.Split(string(lines[0]), "; ")
	if len(parts) != 5 {
		return Sender{}, errForm
	}
	for i, prefix := range [...]string{"t=", "n=", "c=", "s=", "m="} {
		rest, ok := strings.CutPrefix(parts[i], prefix)
		if !ok || rest == "" {
			return Sender{}, errForm
		}
		parts[i] = rest
	}
	t, n, name, scheme := parts[0], parts[1], parts[2], parts[3]
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[4])
	if err != nil {
		return Sender{}, errForm
	}
	if !slices.ContainsFunc(v.secrets.All(), func(secret []byte) bool { return hmac.Equal(mac, sign(secret, t, n, name, scheme, r)) }) {
		return Sender{}, errForged
	}
	millis, err := strconv.ParseInt(t, 10, 64)
	c, ok := front.ParseClient(name)
	if err != nil || !ok || scheme != "http" && scheme != "https" {
		return Sender{}, errForm
	}
	now := v.now()
	if age := now.Sub(time.UnixMilli(millis)); age > Life || age < -Life {
		return Sender{}, errStale
	}
	if millis < now.Add(-v.uptime()).UnixMilli() {
		return Sender{}, errEarlier
	}
	if !v.isNew([16]byte(mac), now) {
		return Sender{}, errReplayed
	}
	return Sender{Client: c, HTTPS: scheme == "https"}, nil
}

// isNew remembers a MAC, and reports whether it was not there before.
func (v *Verifier) isNew(mac [16]byte, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if age := now.Sub(v.since); age > 2*Life || age < 0 {
		v.before, v.seen, v.since = v.seen, map[[16]byte]struct{}{}, now
	}
	_, seen := v.seen[mac]
	_, before := v.before[mac]
	v.seen[mac] = struct{}{}
	return !seen && !before
}

const minSecret = 32

// Secrets are shared by origin and edges. Vouchers are made with the first of them, and a
// voucher made with any of them is valid, so a secret can be rotated while requests are
// under way. Functions may be called concurrently. The zero value has no secret.
type Secrets struct{ all atomic.Pointer[[][]byte] }

// NewSecrets gives the secrets in this order. It fails without any, and if one has fewer
// than 32 bytes.
func NewSecrets(all ...[]byte) (*Secrets, error) {
	s := new(Secrets)
	return s, s.Replace(all...)
}

// Replace replaces all secrets. It fails as [NewSecrets] does, and then changes nothing. The
// caller must not change the slices afterwards.
func (s *Secrets) Replace(all ...[]byte) error {
	if len(all) == 0 {
		return errNoSecret
	}
	for _, secret := range all {
		if len(secret) < minSecret {
			return errNoSecret
		}
	}
	s.all.Store(&all)
	return nil
}

var errNoSecret = fmt.Errorf("voucher: the secret that edges share must have at least %d bytes", minSecret)

// Are reports whether these are the secrets, in this order.
func (s *Secrets) Are(all ...[]byte) bool { return slices.EqualFunc(s.All(), all, bytes.Equal) }

// Current gives the secret that vouchers are made with.
func (s *Secrets) Current() []byte {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// All gives the secrets in their order. The caller must not change them.
func (s *Secrets) All() [][]byte {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Check fails for the zero value.
func (s *Secrets) Check() error {
	if s.Current() == nil {
		return errNoSecret
	}
	return nil
}

// Format prints no secret.
func (*Secrets) Format(f fmt.State, _ rune) { fmt.Fprint(f, "voucher.Secrets(redacted)") }
