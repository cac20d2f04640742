package cluster

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"webring/server/ledger"
)

// FuzzGroup: what is read as the rows of a transaction has no other encoding.
func FuzzGroup(f *testing.F) {
	for _, b := range []ledger.Batch{{}, {"a": nil}, {"a": {}, "b": []byte("1"), "c\x00": some(300)}} {
		encoded, _ := appendGroup(nil, b)
		f.Add(encoded)
	}
	f.Add([]byte("\x01\x00\x01b\x00\x01a"))
	f.Add([]byte("\x01\x00\x81\x00b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := parseGroup(b)
		if err != nil {
			return
		}
		again, keys := appendGroup(nil, batch)
		if !bytes.Equal(again, b) || len(keys) != len(batch) {
			t.Errorf("%x is read as %d rows and written as %x", b, len(batch), again)
		}
		unpacked, err := decompress(compress(b))
		if err != nil || !bytes.Equal(unpacked, b) {
			t.Errorf("%x compressed and back is %x, %v", b, unpacked, err)
		}
	})
}

// FuzzSealed: nothing opens but what was sealed, for the same transaction of the same ring.
func FuzzSealed(f *testing.F) {
	s, err := newSealer(keyFile(f), "ring")
	if err != nil {
		f.Fatal(err)
	}
	other := &sealer{path: s.path, ring: "other", keys: s.keys}
	rows, _ := group(beginning, []byte("content"))
	plain, _ := appendGroup(nil, rows)
	foreign, err := newSealer(keyFile(f), "ring")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(foreign.seal(1, compress(plain)), 60, byte(1))
	f.Add(compress(plain), 3, byte(0))
	f.Add(compress([]byte("no rows")), 3, byte(0))
	f.Add([]byte(sealMagic), 0, byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at int, change byte) {
		if _, err := s.group(1, b); err == nil {
			t.Errorf("%x was not sealed in this run, and opens", b)
		}
		sealed := s.seal(7, b)
		if plain, err := s.open(7, sealed); err != nil || !bytes.Equal(plain, b) {
			t.Fatalf("%x sealed and opened is %x, %v", b, plain, err)
		}
		if batch, err := s.group(7, sealed); err == nil {
			if p, err := batch.Position(); err != nil || p.Serial != 7 {
				t.Errorf("%x is read as transaction %d, %v", b, p.Serial, err)
			}
		}
		if _, err := s.open(8, sealed); err == nil {
			t.Error("a value opens as that of another transaction")
		}
		if _, err := other.open(7, sealed); err == nil {
			t.Error("a value opens as that of another ring")
		}
		if at >= 0 && change != 0 {
			sealed[at%len(sealed)] ^= change
			if _, err := s.open(7, sealed); err == nil {
				t.Errorf("a value that was changed at %d opens", at%len(sealed))
			}
		}
	})
}

// FuzzNumbers: the values of fixed length are read as they were written.
func FuzzNumbers(f *testing.F) {
	f.Add(head{at: beginning, epoch: 7, written: 9}.encode())
	f.Add(trimmed{3, 4}.encode())
	f.Add(encodeUntil(1 << 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHead(b); err == nil && !bytes.Equal(h.encode(), b) {
			t.Errorf("the head %x is written as %x", b, h.encode())
		}
		if v, err := decodeTrimmed(b); err == nil && !bytes.Equal(v.encode(), b) {
			t.Errorf("the beginning %x is written as %x", b, v.encode())
		}
		if ms, err := decodeUntil(b); err == nil && (ms < 0 || !bytes.Equal(encodeUntil(ms), b)) {
			t.Errorf("the time %x is read as %d", b, ms)
		}
		k := keyspace("/ring/a/")
		if serial, err := k.serial(string(b)); err == nil && k.group(serial) != string(b) {
			t.Errorf("the key %q is read as %d", b, serial)
		}
	})
}

// FuzzText: the JSON values are read in bounds, and are the same after they were written again.
func FuzzText(f *testing.F) {
	f.Add([]byte(encodeText(report{URL: "http://ada.test", Serial: 7, At: 9, Keys: []string{"00"}})))
	f.Add([]byte(encodeText(Leader{"ada", "http://ada.test"})))
	f.Add([]byte(encodeText(sealing{"00", 3})))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&report{}, &Leader{}, &sealing{}} {
			if decodeText(b, v) != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if text := encodeText(v); len(text) <= maxText {
				if err := decodeText([]byte(text), again); err != nil || encodeText(again) != text {
					t.Errorf("%s is read again as %s, %v", text, encodeText(again), err)
				}
			}
		}
	})
}

// FuzzKeyFile: a key file has one or two keys, and each is used whole.
func FuzzKeyFile(f *testing.F) {
	f.Add(strings.Repeat("0a", sealKey) + "\n")
	f.Add(strings.Repeat("0a", sealKey) + "\n" + strings.Repeat("FF", sealKey))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKeys(text)
		if err != nil {
			if strings.Contains(err.Error(), strings.TrimSpace(text)) && len(strings.TrimSpace(text)) > 20 {
				t.Error("the error shows what the file holds")
			}
			return
		}
		fields := strings.Fields(text)
		if len(keys) != len(fields) || len(keys) > maxKeys {
			t.Fatalf("%d keys of %d lines", len(keys), len(fields))
		}
		for i, k := range keys {
			if hex.EncodeToString(k.bytes) != strings.ToLower(fields[i]) || len(k.name()) != 2*sealID {
				t.Errorf("line %d is another key", i+1)
			}
		}
	})
}

// TestAnAlteredSealingKeyIsRefused: both lines of a key file are checked.
func TestAnAlteredSealingKeyIsRefused(t *testing.T) {
	path := keyFile(t)
	if err := RenewKeyFile(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if s, failed := newSealer(path, "ring"); err != nil || failed != nil || len(s.ids()) != 2 {
		t.Fatalf("%q: %v, %v", text, err, failed)
	}
	for line, at := range []int{0, len(text) / 2} {
		altered := bytes.Clone(text)
		if altered[at]++; !bytes.ContainsRune([]byte("123456789abcdef"), rune(altered[at])) {
			altered[at] = '0' // so that it stays a digit
		}
		if err := os.WriteFile(path, altered, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newSealer(path, "ring"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s: line %d ", path, line+1)) {
			t.Errorf("line %d is altered: %v", line+1, err)
		}
	}
}

// FuzzMarker: a marker that is read can be written, and is the same then.
func FuzzMarker(f *testing.F) {
	b, err := json.Marshal(Marker{"ring", "ada", 1 << 63, "X", "Y"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"ring":"../x","node":"a","etcd":"1"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMarker(b)
		if err != nil {
			return
		}
		if filepath.Base(m.Ring) != m.Ring {
			t.Errorf("the ring %q", m.Ring)
		}
		if err := m.write(dir); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadMarker(dir); err != nil || again != m {
			t.Errorf("%+v is read as %+v, %v", m, again, err)
		}
	})
}
