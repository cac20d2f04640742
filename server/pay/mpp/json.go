package mpp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// ErrEncoding is returned by [DecodeJSON] for anything but strict base64url of
// strict JSON that fits the destination. It says no more than that on purpose:
// the input may be a credential.
var ErrEncoding = errors.New("mpp: not strict base64url of strict JSON")

// maxDepth bounds the nesting of what DecodeJSON accepts. A credential needs
// three levels.
const maxDepth = 16

// EncodeJSON returns v as canonical JSON (RFC 8785) in base64url without
// padding. encoding/json alone is not canonical: it sorts by UTF-8 bytes,
// keeps field order, and escapes <, > and &. A value has one encoding, so what
// this returns can be compared as text.
func EncodeJSON(v any) (string, error) {
	if words, ok := v.(map[string]string); ok {
		if canonical, ok := appendPlain(make([]byte, 0, 256), words); ok {
			return encodeBase64(canonical), nil
		}
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("mpp: encode: %w", err)
	}
	canonical, err := jcs.Transform(plain)
	if err != nil {
		return "", fmt.Errorf("mpp: canonicalise: %w", err)
	}
	return encodeBase64(canonical), nil
}

// appendPlain writes an object of strings that need no escapes, which is what
// every challenge holds. It is not ok when one does.
func appendPlain(dst []byte, words map[string]string) (canonical []byte, ok bool) {
	dst = append(dst, '{')
	keys := slices.AppendSeq(make([]string, 0, 16), maps.Keys(words))
	slices.Sort(keys)
	for i, key := range keys {
		value := words[key]
		if !isPlain(key) || !isPlain(value) {
			return nil, false
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), key...), `":"`...)
		dst = append(append(dst, value...), '"')
	}
	return append(dst, '}'), true
}

// isPlain says that s stands for itself between quotes, in JSON and in a header
// field: printable ASCII without the quote and the backslash.
func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// DecodeJSON reads what [EncodeJSON] writes into v, which must be a pointer.
// It is stricter than encoding/json where that would let two readers see two
// different values in one text. Refused, with [ErrEncoding]:
//
//   - padding, the standard alphabet, line breaks and stray trailing bits in
//     the base64 (the standard library's decoder skips CR and LF);
//   - invalid UTF-8, half of a surrogate pair, anything after the value, nesting deeper than 16;
//   - an object, at any depth, with a key twice, counting keys that differ
//     only by case as the same;
//   - a key that differs only by case from a field v knows: encoding/json
//     would take it for that field.
//
// Unknown fields are skipped, as the core draft demands of implementations;
// a caller that wants them refused decodes into a map first. The JSON need not
// be canonical. The caller bounds the length of s.
func DecodeJSON(s string, v any) error {
	raw, err := decodeBase64(s)
	if err != nil {
		return ErrEncoding
	}
	return Unmarshal(raw, v)
}

// Unmarshal reads JSON into v, a pointer, under the rules of [DecodeJSON].
func Unmarshal(raw []byte, v any) error {
	if checkNames(raw) != nil {
		return ErrEncoding
	}
	// A name in another case is a field to the one reader, and unknown to the other.
	into := reflect.ValueOf(v).Elem()
	exact, folded := reflect.New(into.Type()), reflect.New(into.Type())
	if jsonv2.Unmarshal(raw, exact.Interface()) != nil || json.Unmarshal(raw, folded.Interface()) != nil ||
		!reflect.DeepEqual(exact.Interface(), folded.Interface()) {
		return ErrEncoding
	}
	into.Set(exact.Elem())
	return nil
}

// checkNames refuses objects with a name twice, in whatever case, and deep nesting.
func checkNames(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	var names []map[string]bool // of the objects and lists around
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token.Kind() {
		case '{', '[':
			if names = append(names, map[string]bool{}); len(names) > maxDepth {
				return ErrEncoding
			}
		case '}', ']':
			names = names[:len(names)-1]
		case '"':
			if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 {
				name := strings.ToLower(strings.ToUpper(token.String())) // K, k and the Kelvin sign are one letter
				if names[len(names)-1][name] {
					return ErrEncoding
				}
				names[len(names)-1][name] = true
			}
		}
	}
}

// encodeBase64 allocates nothing but what it returns, unless that is long.
func encodeBase64(b []byte) string {
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 256), b))
}

func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, ErrEncoding
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}
