package logscan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Scanner knows what must not be found. Its functions may be called concurrently. The zero
// value knows the forms of credentials and receipts, and nothing else.
type Scanner struct {
	mu        sync.Mutex
	secrets   map[string]map[string]string // what each is, by the beginning of its spellings, and by these
	addresses map[netip.Addr]bool
}

// least is how long a secret is, in bytes: shorter ones are found where they are not.
const least = 12

// Secret has a value not to be found as it is, in hexadecimal or in base64. Short values
// are left out.
func (s *Scanner) Secret(what, value string) {
	if len(value) < least {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secrets == nil {
		s.secrets = map[string]map[string]string{}
	}
	spellings := []string{value, hex.EncodeToString([]byte(value)),
		base64.RawStdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))}
	if raw, err := hex.DecodeString(value); err == nil && len(raw) >= least {
		spellings = append(spellings, base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw))
	}
	for _, spelling := range spellings {
		begins := spelling[:least]
		if s.secrets[begins] == nil {
			s.secrets[begins] = map[string]string{}
		}
		s.secrets[begins][spelling] = what
	}
}

// address matches what may be one.
var address = regexp.MustCompile(`[0-9a-fA-F]*[.:][0-9a-fA-F.:]*[0-9a-fA-F:]`)

// Clients has the addresses in the value of a header field not to be found. Those of this
// machine are left out: servers have them, too.
func (s *Scanner) Clients(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, word := range address.FindAllString(value, -1) {
		if a, ok := parse(word); ok && !a.IsLoopback() && !a.IsUnspecified() {
			if s.addresses == nil {
				s.addresses = map[netip.Addr]bool{}
			}
			s.addresses[a] = true
		}
	}
}

// parse reads an address with or without a port, before a colon or a full stop or not.
func parse(word string) (netip.Addr, bool) {
	a, ok := parseExact(word)
	if trimmed := strings.TrimRight(word, ":."); !ok && trimmed != word {
		return parseExact(trimmed)
	}
	return a, ok
}

func parseExact(word string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(word); err == nil {
		return a.Unmap(), true
	}
	if p, err := netip.ParseAddrPort(word); err == nil {
		return p.Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

// The forms of what goes over the wire: a JSON object in base64url, as in every credential,
// receipt and challenge, and a credential of any content. Ids of payments are base64url, too, so
// that the letters with which an object begins are in one of some ten thousand of them.
var forms = map[string]*regexp.Regexp{
	"a credential, a receipt or a challenge": regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{16,}`),
	"a credential":                           regexp.MustCompile(`(?i)\bpayment [A-Za-z0-9_-]{24,}`),
}

// Scan gives what is in a log that must not be there, each with its line. It does not
// repeat the secret.
func (s *Scanner) Scan(log []byte) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, line := range bytes.Split(log, []byte("\n")) {
		told := func(what string) {
			if text := fmt.Sprintf("line %d has %s", n+1, what); !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
		for at := range max(0, len(line)-least+1) {
			for spelling, what := range s.secrets[string(line[at:at+least])] {
				if bytes.HasPrefix(line[at:], []byte(spelling)) {
					told(what)
				}
			}
		}
		for what, form := range forms {
			if form.Match(line) {
				told(what)
			}
		}
		for _, at := range address.FindAllIndex(line, -1) {
			// What is cut is a prefix.
			if a, ok := parse(string(line[at[0]:at[1]])); ok && s.addresses[a] && !bytes.HasPrefix(line[at[1]:], []byte("/")) {
				told("the address of a client")
			}
		}
	}
	slices.Sort(found)
	return found
}

// ScanFolder scans all files in a folder, and gives how many these were.
func (s *Scanner) ScanFolder(dir string) (files int, found []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return 0, nil, err
	}
	for _, name := range names {
		log, err := os.ReadFile(name)
		if err != nil {
			return files, found, err
		}
		files++
		for _, what := range s.Scan(log) {
			found = append(found, filepath.Base(name)+": "+what)
		}
	}
	return files, found, nil
}
