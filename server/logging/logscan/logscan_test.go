package logscan

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is planted is found, in every spelling, and nothing else is.
func TestPlantedSecretsAreFound(t *testing.T) {
	const key, credential = "6c8f1e02b7d94ab3a1c5e0f7d2b48690", "dGhpcyBpcyBub3QgSlNPTiBidXQgYSBjcmVkZW50aWFs"
	raw, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	s := new(Scanner)
	s.Secret("a key", key)
	s.Secret("a credential that was sent", credential)
	s.Secret("nothing", "short")
	s.Clients("203.0.113.77, 2001:db8:12:34:56::1, 127.0.0.1")
	s.Clients(`for="[2001:db8::9]:8080";proto=https`)
	s.Clients("not an address: at 12:30")
	for _, planted := range []string{
		"err=" + key, "key=" + strings.ToUpper("x") + key + "y",
		hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString([]byte(key)),
		"header=" + credential,
		`header="Payment ` + base64.RawURLEncoding.EncodeToString([]byte("a credential that nobody told of")) + `"`,
		"receipt=" + base64.RawURLEncoding.EncodeToString([]byte(`{"method":"tempo","reference":"0x1"}`)),
		"client=203.0.113.77", "read tcp 127.0.0.1:80->203.0.113.77:5123: timeout", "client=2001:db8:12:34:56::1", "client=[2001:db8:12:34:56::1]:99",
		"client=2001:db8:0:0::9", `"client":"::ffff:203.0.113.77"`,
	} {
		if found := s.Scan([]byte("level=INFO msg=fine\n" + planted + "\n")); len(found) == 0 || !strings.HasPrefix(found[0], "line 2 has ") {
			t.Errorf("%s is not found: %q", planted, found)
		} else if strings.Contains(found[0], key) || strings.Contains(found[0], credential) {
			t.Errorf("%q repeats the secret", found)
		}
	}
	for _, fine := range []string{
		"", "time=2026-11-24T05:00:00.123Z level=INFO msg=request client=203.0.113.0/24 took_us=85", "client=2001:db8:12::/48",
		"short is no secret", "at 127.0.0.1:8402", "payment=uS2PeEN2cys1j0SeZpo7za2ydtGCc0-4t9QtLO-1GJU transaction=0x8aaba5adf3b2e1ea9f142e4d01e6e5042dc5ae8199fb463207f095ffa17a2a3e",
		`msg="payment applied" payment=uS2PeEN2cys1jeyJZpo7za2ydtGCc04t9QtLO01GJU2`,
		`msg="payment applied" audit=payment payment=uS2PeEN2cys1j0SeZpo7za2ydtGCc0-4t9QtLO-1GJU`, `msg="payment refused" code=payment_expired`, "203.0.113.7", "203.0.113.770",
	} {
		if found := s.Scan([]byte(fine)); len(found) > 0 {
			t.Errorf("%s: %q", fine, found)
		}
	}
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.log": "fine\n", "b.log": "client=203.0.113.77\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := new(Scanner)
	s.Clients("203.0.113.77")
	files, found, err := s.ScanFolder(dir)
	if err != nil || files != 2 || len(found) != 1 || found[0] != "b.log: line 1 has the address of a client" {
		t.Errorf("%d files, %q, %v", files, found, err)
	}
}
