package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReservationState says how far a payment has come.
type ReservationState string

// A reservation starts as Reserved, before anything is sent to a chain, and
// ends as Applied, with its event, or as Failed. It never leaves these two. A proof
// is Applied from the start.
const (
	Reserved ReservationState = "reserved"
	Applied  ReservationState = "applied"
	Failed   ReservationState = "failed"
)

// The operations that are paid for.
const (
	OperationRegister = "register"
	OperationBid      = "bid"
)

// FailurePeriod is how long a failed registration counts against its URL: see
// [View.URLFailures].
const FailurePeriod = time.Hour

// Reservation is a verified payment on its way into the ledger, and the record of it
// afterwards. It is stored before the payment is sent, because a payment that was sent
// can charge its payer. Payments are kept for ever.
//
// A reservation of 0 cents is the record of a proof, which an owner has given for a request
// about its member. It is kept until [Tx.Forget].
//
// Byte slices of a reservation that came from a ledger are shared with it and
// must not be changed; the struct is the caller's own.
type Reservation struct {
	ID        string           // challenge id
	State     ReservationState // Reserved in a new one
	Operation string           // OperationRegister or OperationBid; any of a proof
	URLKey    string           `json:",omitempty"` // register: identity key of the URL, until it fails
	URLMark   []byte           `json:",omitempty"` // set by Update when a registration fails or lapses; see urlMark
	Member    string           `json:",omitempty"` // slug; for register once applied
	Cents     int64            // the whole payment
	// OnlyIfRank is the rank without which nothing was to be paid, 0 for any.
	OnlyIfRank int    `json:",omitempty"`
	Payer      string // account that pays
	// Client is the client that brought the payment, or "" if that does not matter.
	// Update deletes it once the outcome is final.
	Client string `json:",omitempty"`
	// Request is what the request that brought it is called in logs. It is deleted with
	// Client.
	Request string `json:",omitempty"`

	// ReplayKeys are claimed as long as the reservation is kept: no two share one.
	ReplayKeys []string
	// Payment is the payment method's own record, opaque here.
	Payment json.RawMessage `json:",omitempty"`

	Body        []byte          `json:",omitempty"` // of the request, without a content coding
	BodyDigest  string          `json:",omitempty"` // of the bytes received
	Pinned      json.RawMessage `json:",omitempty"` // what the challenge promised
	Idempotency string          `json:",omitempty"` // hash of the client's key, "" without one

	Created     time.Time // set by Reserve
	ValidBefore time.Time // after it the payment can no longer be mined, or is [Reservation.Lapsed] soon
	// Endless says that its payment has no end, or one far ahead: if it is not mined in time, it lapses. Stranger
	// says of one that its payer had not paid here before, by [View.PaidSince].
	Endless  bool `json:",omitempty"`
	Stranger bool `json:",omitempty"`
	// Lapsed is when an open reservation gave up all that it held, because its payment was not
	// mined in time; it still can be. From then on the reservation counts as a failure of its
	// URL, and what was reserved may no longer be possible. Set by the caller of Update.
	Lapsed time.Time `json:",omitzero"`

	Outcome  string    `json:",omitempty"` // as shown to the payer
	Reason   string    `json:",omitempty"` // as shown to the operator
	FailedAt time.Time `json:",omitzero"`  // set by Update when it fails
	Seq      uint64    `json:",omitempty"` // of its event, for a proof the newest one then; rules are the first event, so never 0

	Response  *Response `json:",omitempty"`
	Delivered bool      `json:",omitempty"` // a 2xx has been written to a payer
	// Confirmed says that the network's outcome of an applied payment is final.
	// Outcome then holds it.
	Confirmed bool `json:",omitempty"`
	// Redacted says that Body, Pinned, URLKey and the body of the response
	// were deleted with the texts of the member. An answer that was made later stays. Set by the
	// ledger.
	Redacted bool `json:",omitempty"`
}

// Response is the answer to the payer, stored so that it can be given again.
type Response struct {
	Status int
	Header [][2]string `json:",omitempty"`
	Body   []byte      `json:",omitempty"`
}

var (
	// ErrNoReservation is returned by look-ups that find none.
	ErrNoReservation = errors.New("ledger: no such reservation")
	// ErrURLPending says that another payment for the same URL is open.
	ErrURLPending = errors.New("ledger: the URL is being paid for")
	// ErrReservation says that a reservation is malformed, or that a change
	// of it is not one that a reservation can go through.
	ErrReservation = errors.New("ledger: invalid reservation")
)

// ReplayedError names the reservation that holds a replay key, or the id, of
// one that was to be made.
type ReplayedError struct {
	Reservation string // its id
}

// Error does not repeat the id: it belongs to the payer.
func (e *ReplayedError) Error() string { return "ledger: payment was reserved before" }

// reservationFormat is the version of the stored JSON.
const reservationFormat = 1

// maxReservation bounds the stored JSON in bytes. Bodies are 16 KiB and
// responses much less, so only a mistake meets it.
const maxReservation = 256 << 10

// maxKey bounds ids, replay keys and hashes in bytes: they become keys.
const maxKey = 512

type storedReservation struct {
	Version int
	*Reservation
}

func encodeReservation(r *Reservation) ([]byte, error) {
	b, err := json.Marshal(storedReservation{reservationFormat, r})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReservation, err)
	}
	if len(b) > maxReservation {
		return nil, fmt.Errorf("%w: %d bytes", ErrReservation, len(b))
	}
	return b, nil
}

func decodeReservation(b []byte) (*Reservation, error) {
	s := storedReservation{Reservation: &Reservation{}}
	// The writer decodes several for each payment, and encoding/json takes four times as long.
	if err := jsonv2.Unmarshal(b, &s, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("stored reservation: %w", err)
	}
	if s.Version != reservationFormat {
		return nil, fmt.Errorf("stored reservation has format %d; this program knows %d", s.Version, reservationFormat)
	}
	return s.Reservation, nil
}

// check says what is wrong with a reservation by itself.
func (r *Reservation) check() error {
	wrong := func(what string) error { return fmt.Errorf("%w: %s", ErrReservation, what) }
	switch {
	case r.ID == "" || len(r.ID) > maxKey:
		return wrong("id")
	case len(r.Idempotency) > maxKey:
		return wrong("idempotency hash")
	case r.Cents <= 0 && !r.proof():
		return wrong("amount")
	case len(r.Client) > maxKey:
		return wrong("client")
	case len(r.ReplayKeys) == 0:
		return wrong("replay keys")
	}
	for _, k := range r.ReplayKeys {
		if k == "" || len(k) > maxKey {
			return wrong("replay key")
		}
	}
	switch r.Operation {
	case OperationRegister:
		if r.URLKey == "" && r.State != Failed && !r.Redacted {
			return wrong("URL")
		}
	case OperationBid:
		if r.Member == "" && r.State != Failed || r.URLKey != "" {
			return wrong("member")
		}
	default:
		if !r.proof() {
			return wrong("operation")
		}
	}
	switch r.State {
	case Reserved, Failed:
	case Applied:
		if r.Member == "" {
			return wrong("applied without a member")
		}
	default:
		return wrong("state")
	}
	return nil
}

// proof says whether r is the record of a proof, and not of a payment.
func (r *Reservation) proof() bool { return r.Cents == 0 && r.State == Applied && r.Confirmed }

// urlMark replaces a URL after a payment has failed. A hash recognises it, and the URL of a
// failed payment must not be stored for ever.
func urlMark(urlKey string) []byte {
	sum := sha256.Sum256([]byte(urlKey))
	return sum[:]
}

// fail ends r at this instant, and replaces its URL by what is needed to recognise it.
func (r *Reservation) fail(at time.Time) {
	r.FailedAt = at
	r.mark()
	r.URLKey = ""
}

// mark puts what recognises a failure of r into r.
func (r *Reservation) mark() {
	if r.Operation == OperationRegister {
		r.URLMark = urlMark(r.URLKey)
	}
}

// holds says whether r is open and holds its URL or its part of a member's total.
func (r *Reservation) holds() bool { return r.State == Reserved && r.Lapsed.IsZero() }

// checkChange says whether a stored reservation may become r.
func (r *Reservation) checkChange(to *Reservation) error {
	if err := to.check(); err != nil {
		return err
	}
	same := r.ID == to.ID && r.Operation == to.Operation && r.Cents == to.Cents && r.Payer == to.Payer &&
		(r.URLKey == to.URLKey || r.Redacted) && (r.Member == to.Member || r.Member == "") &&
		slices.Equal(r.ReplayKeys, to.ReplayKeys) && r.Idempotency == to.Idempotency
	if !same {
		return fmt.Errorf("%w: what was reserved has changed", ErrReservation)
	}
	if r.State != Reserved && r.State != to.State {
		return fmt.Errorf("%w: from %s to %s", ErrReservation, r.State, to.State)
	}
	return nil
}

// redact deletes whatever may hold the member's texts.
func (r *Reservation) redact() {
	r.Body, r.Pinned, r.URLKey, r.Client, r.Request, r.Redacted = nil, nil, "", "", "", true
	if r.Response != nil {
		changed := *r.Response
		changed.Body = nil
		r.Response = &changed
	}
}
