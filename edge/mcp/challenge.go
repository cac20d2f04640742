package mcp

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// challenge is an offer to be paid, with its request as an object.
type challenge struct {
	ID          string          `json:"id"`
	Realm       string          `json:"realm"`
	Method      string          `json:"method"`
	Intent      string          `json:"intent"`
	Request     json.RawMessage `json:"request"`
	Expires     string          `json:"expires,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Opaque      string          `json:"opaque,omitempty"`
	Description string          `json:"description,omitempty"`
}

// readChallenge reads a WWW-Authenticate field as this ring writes it: one challenge of the
// scheme Payment with quoted strings as parameters.
func readChallenge(field string) (c challenge, ok bool) {
	rest, ok := strings.CutPrefix(field, "Payment ")
	if !ok {
		return c, false
	}
	var request string
	into := map[string]*string{"id": &c.ID, "realm": &c.Realm, "method": &c.Method, "intent": &c.Intent, "request": &request,
		"expires": &c.Expires, "digest": &c.Digest, "opaque": &c.Opaque, "description": &c.Description}
	for rest != "" {
		name, after, found := strings.Cut(rest, `="`)
		if !found {
			return c, false
		}
		value, length, closed := unquote(after)
		if !closed {
			return c, false
		}
		if p := into[name]; p != nil {
			*p = value
		}
		rest = strings.TrimPrefix(after[length:], ", ")
	}
	text, err := base64.RawURLEncoding.DecodeString(request)
	c.Request = text
	return c, err == nil && len(text) > 0 && text[0] == '{' && json.Valid(text)
}

// unquote reads the inside of a quoted string, up to the quote that ends it and length bytes
// long with that. Characters beyond ASCII are spelled \uXXXX, in units of UTF-16.
func unquote(s string) (value string, length int, closed bool) {
	var units []uint16
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return string(utf16.Decode(units)), i + 1, true
		case s[i] != '\\':
			units = append(units, uint16(s[i]))
		case i+5 < len(s) && s[i+1] == 'u':
			unit, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
			if err != nil {
				return "", 0, false
			}
			units = append(units, uint16(unit))
			i += 5
		case i+1 < len(s):
			i++
			units = append(units, uint16(s[i]))
		}
	}
	return "", 0, false
}
