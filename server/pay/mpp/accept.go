package mpp

import (
	"regexp"
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

// rangeForm is a member of the list: method, intent, parameters. weightForm is an HTTP qvalue, of at most
// three decimals.
var (
	rangeForm  = regexp.MustCompile(`^(\*|[a-zA-Z0-9-]+)[ \t]*/[ \t]*(\*|[a-zA-Z0-9-]+)[ \t]*(?:;(.*))?$`)
	weightForm = regexp.MustCompile(`^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$`)
)

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
		parts := rangeForm.FindStringSubmatch(member)
		if parts == nil {
			return nil, false
		}
		r := payRange{method: parts[1], intent: parts[2], weight: 1000}
		for param := range strings.SplitSeq(parts[3], ";") {
			name, value, _ := strings.Cut(param, "=")
			if !strings.EqualFold(trimOWS(name), "q") {
				continue
			}
			if value = trimOWS(value); !weightForm.MatchString(value) {
				return nil, false
			}
			digits := strings.Replace(value, ".", "", 1) + "000"
			r.weight, _ = strconv.Atoi(digits[:4])
		}
		ranges = append(ranges, r)
	}
	return ranges, len(ranges) > 0
}

func trimOWS(s string) string { return strings.Trim(s, " \t") }
