package edge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"webring/edge/clientaddr"
)

// A voucher is how an edge says for whom it forwards a request: the field
// Webring-Edge, which only holders of the shared secret can write.
//
//	Webring-Edge: t=1760000000123; n=NONCE; c=192.0.2.1; s=https; m=MAC
//
// t is when it was written, in milliseconds since 1970; n 16 random bytes; c
// the client as [Handler] names it; s the scheme that the client spoke. MAC is
// HMAC-SHA256 over the lines
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
// each ended by a line feed. n, MAC and the body's digest are base64url
// without padding. The field has this one spelling. It counts once, and until
// 30 seconds from t, either way, but never if t is before the start of the
// process that takes it, which does not know what the one before it took. When
// that was is reckoned back from the present: the clock may have been set since.
const voucherField = "Webring-Edge"

// voucherLife is how far the clocks of edge and origin may be apart, transit
// included.
const voucherLife = 30 * time.Second

// Why a voucher does not count.
var (
	errVoucherForm     = errors.New("edge: malformed voucher")
	errVoucherForged   = errors.New("edge: voucher with a wrong MAC")
	errVoucherStale    = errors.New("edge: voucher from another time")
	errVoucherReplayed = errors.New("edge: voucher seen before")
	errVoucherEarlier  = errors.New("edge: voucher from before this process began, which may have been used then")
)

// minSecret is the least length of the shared secret in bytes.
const minSecret = 32

func checkSecret(secret []byte) error {
	if len(secret) < minSecret {
		return fmt.Errorf("edge: the secret that edges share must have at least %d bytes", minSecret)
	}
	return nil
}

// passedOn is what a voucher is about.
type passedOn struct{ method, target, body []byte }

// Vouch gives a function that shows with a request of this process's own, which
// has no body, that it comes from a holder of the secret; see
// [Config.EdgeSecret]. The function may be called concurrently.
func Vouch(secret []byte) (func(*http.Request), error) {
	if err := checkSecret(secret); err != nil {
		return nil, err
	}
	return func(r *http.Request) {
		about := passedOn{[]byte(r.Method), []byte(r.URL.RequestURI()), nil}
		r.Header.Set(voucherField, newVoucher(secret, time.Now(), clientaddr.Client{}.String(), r.URL.Scheme == "https", about))
	}, nil
}

// newVoucher writes the field for a request of a client, as [Handler] names it.
func newVoucher(secret []byte, now time.Time, client string, secure bool, r passedOn) string {
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	scheme := "http"
	if secure {
		scheme = "https"
	}
	t, n := strconv.FormatInt(now.UnixMilli(), 10), base64.RawURLEncoding.EncodeToString(nonce[:])
	mac := base64.RawURLEncoding.EncodeToString(voucherMAC(secret, t, n, client, scheme, r))
	return "t=" + t + "; n=" + n + "; c=" + client + "; s=" + scheme + "; m=" + mac
}

func voucherMAC(secret []byte, t, n, client, scheme string, r passedOn) []byte {
	body := sha256.Sum256(r.body)
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "webring-edge 1\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n", t, n, client, scheme, r.method, r.target,
		base64.RawURLEncoding.EncodeToString(body[:]))
	return h.Sum(nil)
}

// sender is who sent a request and how, as a voucher says.
type sender struct {
	client clientaddr.Client
	https  bool
}

// vouchers takes vouchers, each once. It may be used concurrently.
type vouchers struct {
	secret []byte
	now    func() time.Time
	uptime func() time.Duration // whatever the clock was set to meanwhile

	mu sync.Mutex
	// Those taken lately, by MAC. Each set is filled for two lifetimes, which
	// is as long as a voucher can count, and kept for as long again. Only
	// holders of the secret can fill them.
	seen, before map[[16]byte]struct{}
	since        time.Time
}

func newVouchers(secret []byte, now func() time.Time) *vouchers {
	start := now()
	uptime := func() time.Duration { return now().Sub(start) }
	return &vouchers{secret: secret, now: now, uptime: uptime, seen: map[[16]byte]struct{}{}, since: start}
}

// take says who sent the request that came with this field.
func (v *vouchers) take(field string, r passedOn) (sender, error) {
	parts := strings.Split(field, "; ")
	if len(parts) != 5 {
		return sender{}, errVoucherForm
	}
	for i, prefix := range [...]string{"t=", "n=", "c=", "s=", "m="} {
		rest, ok := strings.CutPrefix(parts[i], prefix)
		if !ok || rest == "" {
			return sender{}, errVoucherForm
		}
		parts[i] = rest
	}
	t, n, name, scheme := parts[0], parts[1], parts[2], parts[3]
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[4])
	if err != nil {
		return sender{}, errVoucherForm
	}
	if !hmac.Equal(mac, voucherMAC(v.secret, t, n, name, scheme, r)) {
		return sender{}, errVoucherForged
	}
	millis, err := strconv.ParseInt(t, 10, 64)
	c, ok := clientaddr.Parse(name)
	if err != nil || !ok || scheme != "http" && scheme != "https" {
		return sender{}, errVoucherForm
	}
	now := v.now()
	if age := now.Sub(time.UnixMilli(millis)); age > voucherLife || age < -voucherLife {
		return sender{}, errVoucherStale
	}
	if millis < now.Add(-v.uptime()).UnixMilli() {
		return sender{}, errVoucherEarlier
	}
	if !v.first([16]byte(mac), now) {
		return sender{}, errVoucherReplayed
	}
	return sender{client: c, https: scheme == "https"}, nil
}

// first remembers a MAC, and says whether it is new.
func (v *vouchers) first(mac [16]byte, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if age := now.Sub(v.since); age > 2*voucherLife || age < 0 {
		v.before, v.seen, v.since = v.seen, map[[16]byte]struct{}{}, now
	}
	_, seen := v.seen[mac]
	_, before := v.before[mac]
	v.seen[mac] = struct{}{}
	return !seen && !before
}
