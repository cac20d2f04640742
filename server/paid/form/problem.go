package form

import (
	"encoding/json"
	"maps"

	"webring/core/api"
)

// Problem is what a refused request is answered with: an error with the words and members
// of its document.
type Problem struct {
	Code       api.Code
	Detail     string
	Reason     string         // why a payment was refused, one of mpp.Reasons; "" where the code says it all
	RetryAfter int            // seconds, for the Retry-After field; 0 for none
	Fields     []FieldError   // what is wrong with the request, the member errors
	More       map[string]any // further members of the document
}

// Error is for logs; callers get the document.
func (p *Problem) Error() string { return "paid: " + string(p.Code) + ": " + p.Detail }

// Final reports whether p refuses a request permanently and for its own sake: the client
// cannot wait for another answer, and no earlier payment is the reason.
func (p *Problem) Final() bool { return p.Code.Status() < 500 && p.Code != api.CredentialReused }

// Members gives the further members of the document, as [api.AppendProblem] takes them.
// Equal problems have equal members.
func (p *Problem) Members() ([]byte, error) {
	all := maps.Clone(p.More)
	if len(p.Fields) > 0 {
		if all == nil {
			all = map[string]any{}
		}
		all["errors"] = p.Fields
	}
	if len(all) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(all) // sorts the members
	if err != nil {
		return nil, err
	}
	text[0] = ','
	return text[:len(text)-1], nil
}
