package paid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"webring/core/api"
	"webring/server/ledger"
)

// Problem is an error with the words and members that its document shows.
type Problem struct {
	Code       api.Code
	Detail     string
	Reason     string         // why a payment was refused, one of [mpp.Reasons]; "" where the code says it all
	RetryAfter int            // seconds, for the Retry-After field; 0 for none
	More       map[string]any // further members of the document
}

// final says that p refuses a payment for good, and by what it is: not because the
// client is to wait, nor because the payment is known.
func (p *Problem) final() bool {
	return p.Code.Status() < 500 && p.Code != api.CredentialReused
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
	errFirstOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment of this account is being settled, and an account that has never paid here may have one at a time by this method. Nothing was sent or charged by this request; repeat it later."}
	errAllOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "As many payments are being settled as may be at a time. Nothing was sent or charged by this request; repeat it later."}
	errConfiguration = &Problem{Code: api.InvalidChallenge,
		Detail: "The challenge in the credential was issued under a configuration that this ring has changed since. Nothing was charged; pay the new one."}
	errUnreadable = &Problem{Code: api.InvalidRequest,
		Detail: "What the challenge in the credential was issued for is not taken any more. Nothing was charged; send the request without a credential to learn what is wrong with it."}
	errMismatched = &Problem{Code: api.PaymentMismatch,
		Detail: "The transaction went through but did not pay this ring, so nothing was granted. Do not pay again before you know why."}
	errInternal = &Problem{Code: api.Internal, Detail: "Something failed here that should not have."}
)

// rankTaken refuses a payment that would not give the rank wanted. The member of
// the document with this name says how many cents do now, in what is paid.
func rankTaken(rank int, member string, cents int64, what string) *Problem {
	usd := FormatUSD(cents)
	return &Problem{Code: api.RankTaken, More: map[string]any{member: usd},
		Detail: fmt.Sprintf("This payment would not give rank %d or a better one: that takes %s of %s USD now. Nothing was charged.", rank, what, usd)}
}

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
	if a.Status == http.StatusPaymentRequired {
		a.Header = append(a.Header, [2]string{"Link", "<" + base + `/llms.txt>; rel="help"; type="text/plain"`})
	}
	if p.RetryAfter > 0 {
		a.Header = append(a.Header, [2]string{"Retry-After", strconv.Itoa(p.RetryAfter)})
	}
	if p.Reason != "" {
		more = append(append(append(more, `,"reason":"`...), p.Reason...), '"')
	}
	a.problem = p
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
