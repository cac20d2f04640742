package mpp

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
)

// MarkSize is the length of a mark in bytes.
const MarkSize = 16

// Mark binds words to this service, under the current key: whoever shows the mark later got
// it here. No challenge id is a mark. The words may hold no zero byte.
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
