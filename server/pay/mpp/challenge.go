package mpp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode/utf16"
)

// Scheme is the name of the authentication scheme.
const Scheme = "Payment"

// Charge is the only intent that is spoken here: to be paid once.
const Charge = "charge"

// MinKey is the least length of a challenge key, in bytes.
const MinKey = sha256.Size

// Challenge is one offer to be paid. All fields are the text that goes over
// the wire, so that what a credential echoes can be compared as it stands;
// the empty string means absent.
//
// Who proves an account signs the ID and the realm, and a wallet shows nothing else of the
// challenge. So an ID can begin with words that say what is signed for: see [Keys.SignWords].
type Challenge struct {
	ID          string `json:"id"`     // set by Keys.Sign or Keys.SignWords
	Realm       string `json:"realm"`  // see CheckRealm
	Method      string `json:"method"` // "tempo"
	Intent      string `json:"intent"` // [Charge]
	Request     string `json:"request"`
	Expires     string `json:"expires,omitempty"`
	Digest      string `json:"digest,omitempty"`
	Opaque      string `json:"opaque,omitempty"`
	Description string `json:"description,omitempty"` // the only field the ID does not bind
}

// CheckRealm says whether realm may stand in a challenge: a bare host name,
// printable ASCII, without a port and without the separator of the ID's input.
// Call it when the configuration is read.
func CheckRealm(realm string) error {
	if realm == "" || len(realm) > 253 {
		return errors.New("mpp: the realm must have 1 to 253 characters")
	}
	for _, r := range realm {
		if r <= ' ' || r > '~' || strings.ContainsRune(`|"\/:`, r) {
			if net.ParseIP(realm) != nil { // an IPv6 literal is a host too
				return nil
			}
			return errors.New("mpp: the realm must be a host name in ASCII, without scheme or port")
		}
	}
	return nil
}

// Header is the value of one WWW-Authenticate field that carries c. One field
// per offer: the reference client reads joined offers too, but other readers
// of the field split at every comma.
func (c Challenge) Header() string {
	params := [...]struct{ name, value string }{
		{"id", c.ID}, {"realm", c.Realm}, {"method", c.Method}, {"intent", c.Intent},
		{"request", c.Request}, {"expires", c.Expires}, {"digest", c.Digest},
		{"opaque", c.Opaque}, {"description", c.Description},
	}
	length := len(Scheme)
	for _, p := range params {
		length += len(`, ="description"`) + len(p.value)
	}
	var b strings.Builder
	b.Grow(length) // more only for what has to be escaped
	b.WriteString(Scheme)
	sep := " "
	for _, p := range params {
		if p.value == "" {
			continue
		}
		b.WriteString(sep)
		b.WriteString(p.name)
		b.WriteString(`="`)
		quote(&b, p.value)
		b.WriteByte('"')
		sep = ", "
	}
	return b.String()
}

// quote writes the inside of a quoted-string. Field values are bytes to some
// clients and Latin-1 to others, so only ASCII leaves here: the rest is spelt
// \uXXXX in UTF-16 units, which the reference client reads back. Control
// characters become spaces, so no value can end the header field.
func quote(b *strings.Builder, value string) {
	if isPlain(value) {
		b.WriteString(value)
		return
	}
	for _, r := range value {
		switch {
		case r < ' ' || r == 0x7f:
			b.WriteByte(' ')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x7f:
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(b, `\u%04x`, unit)
			}
		}
	}
}

// ExpiresAt is the moment from which c must be refused. A challenge without
// one, or with a time that is not RFC 3339 in UTC, is an error.
func (c Challenge) ExpiresAt() (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, c.Expires)
	if err != nil || !strings.HasSuffix(c.Expires, "Z") {
		return time.Time{}, errors.New("mpp: the challenge carries no valid expiry")
	}
	return t, nil
}

// Keys bind challenges to this service. Current signs. Previous, when set, is
// still believed, so that a rotation does not spoil challenges in flight. Retired
// keys are believed of payments that were made already, and of nothing else: money
// that came in time keeps its effect. A key that leaked belongs in neither. Each
// has at least [MinKey] bytes; a shorter one verifies nothing, and signing with it
// panics. Keys are safe for concurrent use; the slices must not be changed.
type Keys struct {
	Current, Previous []byte
	Retired           [][]byte
}

// Format keeps key bytes out of logs.
func (Keys) Format(s fmt.State, _ rune) { fmt.Fprint(s, "mpp.Keys(redacted)") }

// Sign sets c.ID to the base64url HMAC-SHA256 that binds every other field but
// the description.
func (k Keys) Sign(c *Challenge) { k.SignWords(c, "") }

// SignWords is Sign with words before the HMAC, which it binds, too. They should be what
// [Plain] gives, so that every client reads them alike.
func (k Keys) SignWords(c *Challenge, words string) {
	if len(k.Current) < MinKey {
		panic("mpp: challenge key too short")
	}
	if c.ID = encodeBase64(c.mac(k.Current, words)); words != "" {
		c.ID = words + idMark + c.ID
	}
}

// idMark stands between the words of an ID and its HMAC, in which it cannot be.
const idMark = " #"

// SplitID gives the words that the ID of c begins with, "" for none, and the rest, which is
// another one for each challenge.
func (c Challenge) SplitID() (words, unique string) {
	if at := strings.LastIndex(c.ID, idMark); at > 0 {
		return c.ID[:at], c.ID[at+len(idMark):]
	}
	return "", c.ID
}

// Plain gives a text in the characters that every client takes out of a header field alike,
// and that cannot be mistaken for what stands around it: ASCII letters, digits, single
// spaces and what URLs are made of. All else becomes a space. The text is cut to at most
// most characters.
func Plain(text string, most int) string {
	plain := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"\\|,'#;`<>{}^", r)
	}), " ")
	if len(plain) > most {
		plain = strings.TrimRight(plain[:most-len("...")], " ") + "..."
	}
	return plain
}

// Verify says whether c.ID was made by Sign, under the current or the previous
// key, over exactly these fields. It takes the same time whether or not, and
// whichever key fits.
func (k Keys) Verify(c Challenge) bool { return c.signedBy(k.Current, k.Previous) }

// Signed says the same of all keys, the retired ones too.
func (k Keys) Signed(c Challenge) bool {
	return c.signedBy(append([][]byte{k.Current, k.Previous}, k.Retired...)...)
}

func (c Challenge) signedBy(keys ...[]byte) bool {
	words, unique := c.SplitID()
	id, err := decodeBase64(unique)
	if err != nil || !c.separable() || strings.Contains(words, "|") {
		return false
	}
	fits := false
	for _, key := range keys {
		if len(key) >= MinKey && hmac.Equal(id, c.mac(key, words)) {
			fits = true
		}
	}
	return fits
}

func (c Challenge) slots() [7]string {
	return [...]string{c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque}
}

// mac is HMAC-SHA256 over seven fixed slots (draft-httpauth-payment-00,
// "Challenge Binding"): an absent field leaves its slot empty, never out. Words of the ID
// are an eighth.
func (c Challenge) mac(key []byte, words string) []byte {
	slots := c.slots()
	input := strings.Join(slots[:], "|")
	if words != "" {
		input += "|" + words
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(input))
	return h.Sum(nil)
}

// separable says that no slot contains the separator. Then the input has one reading, and
// no text can be moved from one field to the next.
func (c Challenge) separable() bool {
	slots := c.slots()
	return !strings.Contains(strings.Join(slots[:], ""), "|")
}

// Digest is the value of a Content-Digest member (RFC 9530) over body:
// "sha-256=:…:". A challenge carries it, and the body that comes with the
// credential must have the same.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	value := append(make([]byte, 0, 64), "sha-256=:"...)
	value = base64.StdEncoding.AppendEncode(value, sum[:])
	return string(append(value, ':'))
}

// MarkSize is the length of a mark in bytes.
const MarkSize = 16

// Mark binds words to this service, under the current key. A client that shows the mark later
// got it here. No challenge id is a mark. The words may hold no zero byte.
func (k Keys) Mark(words ...string) []byte {
	if len(k.Current) < MinKey {
		panic("mpp: challenge key too short")
	}
	return mark(k.Current, words)
}

// Marked says whether mark was made by Mark, under the current or the previous key, over
// exactly these words.
func (k Keys) Marked(given []byte, words ...string) bool {
	fits := false
	for _, key := range [][]byte{k.Current, k.Previous} {
		if len(key) >= MinKey && hmac.Equal(given, mark(key, words)) {
			fits = true
		}
	}
	return fits
}

// mark is the beginning of HMAC-SHA256 over the words, each after a zero byte, with which the
// input of no challenge id begins.
func mark(key []byte, words []string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("\x00" + strings.Join(words, "\x00")))
	return h.Sum(nil)[:MarkSize]
}
