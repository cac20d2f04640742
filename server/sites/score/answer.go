package score

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

const (
	maxReport = 2048 // bytes
	// maxNumber bounds the digits of a score before they are computed with.
	maxNumber = 64
)

// pointer is a parsed JSON pointer (RFC 6901); nil points at nothing.
type pointer []string

func parsePointer(s string) (pointer, error) {
	p := jsontext.Pointer(s)
	if !p.IsValid() {
		return nil, fmt.Errorf("score: %q is no JSON pointer: one begins with a slash, and has a 0 or 1 after each ~", s)
	}
	return slices.Collect(p.Tokens()), nil
}

// find gives the value at p, and false when there is none.
func (p pointer) find(document any) (any, bool) {
	if p == nil {
		return nil, false
	}
	for _, token := range p {
		switch node := document.(type) {
		case map[string]any:
			value, ok := node[token]
			if !ok {
				return nil, false
			}
			document = value
		case []any:
			i, ok := index(token)
			if !ok || i >= len(node) {
				return nil, false
			}
			document = node[i]
		default:
			return nil, false
		}
	}
	return document, true
}

// index reads an array index: digits without a leading zero.
func index(token string) (int, bool) {
	i, err := strconv.ParseUint(token, 10, 31)
	return int(i), err == nil && strconv.FormatUint(i, 10) == token
}

// decodeJSON reads one JSON value and nothing after it, numbers as they stand.
func decodeJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return document, nil
}

// readScore reads a number from 0 to 100, and floors it. Exactly: 39.99999999999999999999 is
// 39, where a float64 would be 40.
func readScore(value any) (int, error) {
	number, ok := value.(json.Number)
	if !ok || len(number) > maxNumber {
		return 0, errors.New("the score is not a number")
	}
	d, err := decimal.NewFromString(number.String())
	// The exponent of a number with few digits may still ask for gigabytes.
	if err != nil || d.Exponent() > maxNumber || d.Exponent() < -maxNumber {
		return 0, errors.New("the score is not a number that can be computed with")
	}
	if d.IsNegative() || d.GreaterThan(decimal.NewFromInt(100)) {
		return 0, errors.New("the score is not from 0 to 100")
	}
	return int(d.IntPart()), nil
}

// readReport resolves a report's address against the question's and checks that it may be
// shown: a scoring service, or an attacker in its place, must not choose where a link under
// our name leads.
func readReport(value any, asked *url.URL, host string) (string, error) {
	text, ok := value.(string)
	if !ok {
		return "", errors.New("the report's address is not a string")
	}
	if text == "" || strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) >= 0 {
		return "", errors.New("the report's address is empty or has characters that no URL has")
	}
	ref, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the report's address is not a URL")
	}
	u := asked.ResolveReference(ref)
	switch {
	case u.Opaque != "" || u.User != nil:
		return "", errors.New("the report's address has a user name or no host")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return "", errors.New("the report's address is not https")
	case !strings.EqualFold(host, u.Hostname()):
		return "", fmt.Errorf("the report lies on the host %q, and not on that of the service", u.Hostname())
	}
	report := u.String()
	if len(report) > maxReport {
		return "", errors.New("the report's address is longer than 2048 bytes")
	}
	return report, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
