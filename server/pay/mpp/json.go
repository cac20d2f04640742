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
	"unicode"
	"unicode/utf8"

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
//   - invalid UTF-8, anything after the value, nesting deeper than 16;
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
	if !utf8.Valid(raw) {
		return ErrEncoding
	}
	if err := checkNames(raw, reflect.TypeOf(v)); err != nil {
		return ErrEncoding
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return ErrEncoding
	}
	return nil
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

// checkNames walks one JSON value together with the type it will be decoded into and
// refuses the ambiguous names that DecodeJSON describes.
func checkNames(raw []byte, t reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := checkValue(d, t, maxDepth); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return ErrEncoding
	}
	return nil
}

func checkValue(d *json.Decoder, t reflect.Type, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return ErrEncoding
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	seen := make(map[string]bool)
	for d.More() {
		inner := elementType(t)
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name := key.(string)
			if seen[foldName(name)] {
				return ErrEncoding
			}
			seen[foldName(name)] = true
			if inner, err = fieldType(t, name, inner); err != nil {
				return err
			}
		}
		if err := checkValue(d, inner, depth-1); err != nil {
			return err
		}
	}
	_, err = d.Token() // the closing bracket
	return err
}

// elementType is the type of what a map or slice of type t holds; nil where
// the destination keeps the value unread (json.RawMessage, any) or is a struct.
func elementType(t reflect.Type) reflect.Type {
	if t == nil || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return t.Elem()
	}
	return nil
}

// fieldType is the type of the field of t that JSON calls name, or otherwise
// when t is no struct or has no such field. A name that encoding/json would
// match to a field only by folding case is an error.
func fieldType(t reflect.Type, name string, otherwise reflect.Type) (reflect.Type, error) {
	if t == nil || t.Kind() != reflect.Struct {
		return otherwise, nil
	}
	for f := range t.Fields() {
		known, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if known == "" {
			known = f.Name
		}
		if known == name {
			return f.Type, nil
		}
		if foldName(known) == foldName(name) {
			return nil, ErrEncoding
		}
	}
	return nil, nil
}

// foldName maps all spellings that differ only by case to one, by the same
// simple folding that encoding/json matches names with: K, k and the Kelvin
// sign are one letter.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
