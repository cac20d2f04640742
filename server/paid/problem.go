package paid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"webring/core/api"
	"webring/server/ledger"
)

// Problem is an error with the words and members that its document shows.
type Problem struct {
	Code       api.Code
	Detail     string
	RetryAfter int            // seconds, for the Retry-After field; 0 for none
	More       map[string]any // further members of the document
}

// Error is for logs; callers get the document.
func (p *Problem) Error() string { return "paid: " + string(p.Code) + ": " + p.Detail }

var (
	errUnavailable = &Problem{Code: api.PaymentsUnavailable, RetryAfter: 10,
		Detail: "Payments cannot be taken at the moment. Nothing was charged; try again later."}
	errPending = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment for this is being settled and its outcome is not known yet. Do not pay again: repeat this request later."}
	errManyOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: fmt.Sprintf("%d payments of this account are being settled, and no more may be at a time. Nothing was sent or charged by this request; repeat it later.", maxOpenPerPayer)}
	errInternal = &Problem{Code: api.Internal, Detail: "Something failed here that should not have."}
)

// problem renders the document of err. One function turns every error of this
// package into what a caller sees; one that is not a [Problem] is a plain 500.
func (s *Service) problem(err error) Answer {
	var p *Problem
	var input *InputError
	switch {
	case errors.As(err, &p):
	case errors.As(err, &input):
		p = &Problem{Code: api.Code(input.Code), Detail: input.Detail}
		if len(input.Fields) > 0 {
			p.More = map[string]any{"errors": input.Fields}
		}
	default:
		s.Log.Error("paid operation failed", "err", err)
		p = errInternal
	}
	var more []byte
	if len(p.More) > 0 {
		// encoding/json sorts the members, so equal problems are equal bytes.
		more, err = json.Marshal(p.More)
		if err != nil {
			s.Log.Error("problem members", "err", err)
			more = []byte("{}")
		}
		more[0] = ','
		more = more[:len(more)-1]
	}
	return p.document(s.base(), more)
}

// document is the answer that shows p on the ring with this base URL. It takes
// further members from more, as [api.AppendProblem] does, instead of p.More.
func (p *Problem) document(base string, more []byte) Answer {
	a := Answer{Status: p.Code.Status(), Header: append(make([][2]string, 0, 4),
		[2]string{"Content-Type", "application/problem+json"},
		[2]string{"Cache-Control", "no-store"},
	)}
	if p.RetryAfter > 0 {
		a.Header = append(a.Header, [2]string{"Retry-After", strconv.Itoa(p.RetryAfter)})
	}
	// To write it takes room for being escaped, which it seldom is.
	a.Body = bytes.Clone(api.AppendProblem(make([]byte, 0, 1024), base, p.Code, p.Detail, more))
	return a
}

// base is the ring's base URL.
func (s *Service) base() (base string) {
	s.Ledger.View(func(v *ledger.View) {
		if r := v.State().Rules(); r != nil {
			base = r.BaseURL
		}
	})
	return base
}
