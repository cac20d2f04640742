package mpp

import (
	"slices"
	"strconv"
	"strings"
)

// Offer names one way to pay: a payment method and an intent.
type Offer struct{ Method, Intent string }

// maxAccept bounds an Accept-Payment value that is still read, in bytes.
const maxAccept = 4 << 10

// payRange is one member of Accept-Payment: method and intent, either of which
// may be "*", and the weight in thousandths.
type payRange struct {
	method, intent string
	weight         int
}

// Accept filters and orders offers by an Accept-Payment field
// (draft-httpauth-payment-00, "Client Payment Preferences"). For each offer
// the most specific range decides, the heavier of two equally specific ones;
// weight 0 excludes; heavier offers come first, equal ones stay in the
// server's order. When header is empty or malformed, or would leave nothing,
// all offers are returned as they are: the header is a wish, the challenge is
// what counts. The result never shares memory with offers.
func Accept(header string, offers []Offer) []Offer {
	all := slices.Clone(offers)
	ranges, ok := parseAccept(header)
	if !ok {
		return all
	}
	weights := make(map[Offer]int, len(all))
	for _, o := range all {
		weights[o] = weigh(o, ranges)
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(o Offer) bool { return weights[o] == 0 })
	if len(wanted) == 0 {
		return all
	}
	slices.SortStableFunc(wanted, func(a, b Offer) int { return weights[b] - weights[a] })
	return wanted
}

func weigh(o Offer, ranges []payRange) int {
	weight, best := 0, -1
	for _, r := range ranges {
		if r.method != "*" && r.method != o.Method || r.intent != "*" && r.intent != o.Intent {
			continue
		}
		specific := 0
		if r.method != "*" {
			specific++
		}
		if r.intent != "*" {
			specific++
		}
		if specific > best || specific == best && r.weight > weight {
			weight, best = r.weight, specific
		}
	}
	return weight
}

// parseAccept reads the list; empty members are allowed, as in every HTTP
// list. Parameters other than q are skipped.
func parseAccept(header string) (ranges []payRange, ok bool) {
	if len(header) > maxAccept {
		return nil, false
	}
	for member := range strings.SplitSeq(header, ",") {
		member = trimOWS(member)
		if member == "" {
			continue
		}
		token, params, _ := strings.Cut(member, ";")
		method, intent, slash := strings.Cut(token, "/")
		r := payRange{method: trimOWS(method), intent: trimOWS(intent), weight: 1000}
		if !slash || !isRangeToken(r.method) || !isRangeToken(r.intent) {
			return nil, false
		}
		for param := range strings.SplitSeq(params, ";") {
			name, value, _ := strings.Cut(trimOWS(param), "=")
			if !strings.EqualFold(trimOWS(name), "q") {
				continue
			}
			if r.weight, ok = parseWeight(trimOWS(value)); !ok {
				return nil, false
			}
		}
		ranges = append(ranges, r)
	}
	return ranges, len(ranges) > 0
}

func trimOWS(s string) string { return strings.Trim(s, " \t") }

func isRangeToken(s string) bool {
	if s == "*" {
		return true
	}
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// parseWeight reads an HTTP qvalue, 0 to 1 with at most three decimals, as
// thousandths.
func parseWeight(s string) (thousandths int, ok bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	thousandths, err := strconv.Atoi(whole + (decimals + "000")[:3])
	return thousandths, err == nil && thousandths <= 1000
}
