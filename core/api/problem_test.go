package api

import (
	"encoding/json"
	"slices"
	"testing"
)

// Statuses by code, as the service interface and /openapi.json have them.
var documented = map[int][]Code{
	400: {"invalid_parameter", "unsupported_api_version", "unsupported_method", "multiple_credentials"},
	402: {"payment_required", "payment_expired", "malformed_credential", "invalid_challenge", "verification_failed"},
	403: {"tls_required"},
	404: {"unknown_member", "empty_ring", "not_found"},
	405: {"method_not_allowed"},
	409: {"already_registered", "credential_reused", "payment_mismatch", "rank_taken"},
	410: {"member_removed"},
	413: {"body_too_large"},
	422: {"invalid_url", "agentic_score_too_low", "bid_too_low", "bid_too_high", "invalid_request", "category_unavailable"},
	429: {"rate_limited"},
	431: {"credential_too_large"},
	500: {"internal"},
	503: {"payment_pending", "payments_unavailable", "payments_unconfigured", "not_leader", "origin_unavailable", "score_unavailable", "score_pending", "ring_full"},
}

func TestTheProblemTableIsThatOfTheDocuments(t *testing.T) {
	for status, codes := range documented {
		for _, code := range codes {
			if !slices.Contains(Codes(), code) {
				t.Errorf("%s is not in the table", code)
			} else if code.Status() != status {
				t.Errorf("%s has the status %d, want %d", code, code.Status(), status)
			}
		}
	}
}

func TestEachProblemIsThereOnceWithATitleOfItsOwn(t *testing.T) {
	titles, last := map[string]Code{}, 0
	for i, code := range Codes() {
		if slices.Index(Codes(), code) != i {
			t.Errorf("%s is there twice", code)
		}
		if other, ok := titles[code.Title()]; ok || code.Title() == "" {
			t.Errorf("%s and %s share the title %q", code, other, code.Title())
		}
		titles[code.Title()] = code
		if code.Status() < last || code.Status() < 400 || code.Status() > 599 {
			t.Errorf("%s: status %d after %d", code, code.Status(), last)
		}
		last = code.Status()
	}
}

func TestAnUnknownCodeIsAnInternalProblem(t *testing.T) {
	if c := Code("no_such_code"); c.Status() != 500 || c.Title() != Internal.Title() {
		t.Errorf("%d %s", c.Status(), c.Title())
	}
}

func TestProblemDocuments(t *testing.T) {
	for _, code := range Codes() {
		const detail = `A "detail" & <more>`
		raw := AppendProblem([]byte("kept"), "https://ring.example/x", code, detail, []byte(`,"extra":[1]`))
		var p struct {
			Type, Title, Detail, Code string
			Status                    int
			Extra                     []int
		}
		if err := json.Unmarshal(raw[len("kept"):], &p); err != nil || string(raw[:4]) != "kept" {
			t.Fatalf("%s: %s: %v", code, raw, err)
		}
		typ := "https://ring.example/x/problems/" + string(code)
		if code.Status() == 402 {
			typ = "https://paymentauth.org/problems/" + row(code).payment
		}
		if p.Type != typ || p.Title != code.Title() || p.Status != code.Status() || p.Detail != detail || p.Code != string(code) || len(p.Extra) != 1 {
			t.Errorf("%s: %s", code, raw)
		}
		if (row(code).payment != "") != (code.Status() == 402) {
			t.Errorf("%s: only problems with the status 402 are the payment scheme's", code)
		}
	}
}
