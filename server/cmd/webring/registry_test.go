package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"webring/edge/describe"
)

// TestMCPRegistry holds what is printed for the registry: the entry to its schema, and the
// record to the key that signs in.
func TestMCPRegistry(t *testing.T) {
	t.Parallel()
	schema := jsonschema.NewCompiler().MustCompile("../../../edge/describe/testdata/registry.schema.json#/$defs/ServerDetail")
	folder := t.TempDir()
	key, saved := filepath.Join(t.TempDir(), "it's a key.pem"), filepath.Join(t.TempDir(), "server.json")
	webring := func(args ...string) (out, said string, err error) {
		var stdout, stderr bytes.Buffer
		c := invoke(t, append([]string{"mcp-registry"}, args...)...)
		c.Dir = folder
		c.Stdout, c.Stderr = &stdout, &stderr
		err = c.Run()
		return stdout.String(), stderr.String(), err
	}
	for _, wrong := range [][]string{{"--base-url", "https://ring.example.com"}, {"--name", "x"}, {"--name", "x", "--base-url", "http://ring.example.com"},
		{"--name", "x", "--base-url", "https://192.0.2.1"}, {"--name", "x", "--base-url", "https://localhost"}, {"--name", "x", "--base-url", "https://ring.example.com?x"}} {
		if out, said, err := webring(append(wrong, "--registry-key", key, "--out", saved)...); err == nil || out != "" || strings.Count(said, "\n") != 1 {
			t.Errorf("%v: %v %s%s", wrong, err, out, said)
		}
	}
	for _, file := range []string{key, saved} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s was made for nothing", file)
		}
	}

	out, said, err := webring("--base-url", "https://Ring.Example.com/", "--name", strings.Repeat("Ring ", 30))
	if err != nil || !strings.Contains(said, "--registry-key") {
		t.Fatal(err, said)
	}
	printed, said, err := webring("--base-url", "https://ring.example.com", "--name", strings.Repeat("Ring ", 30), "--registry-key", key, "--out", saved)
	if text, missing := os.ReadFile(saved); err != nil || missing != nil || printed != "" || string(text) != out || !strings.Contains(said, "--file='"+saved+"'") {
		t.Errorf("%v %v: %s%s", err, missing, printed, said)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("in the working folder there is %v, %v", left, err)
	}
	entry, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(entry); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if at(t, entry, "name") != "com.example.ring/webring" || at(t, entry, "remotes", 0, "url") != "https://ring.example.com/mcp" || at(t, entry, "$schema") != describe.RegistrySchema {
		t.Error(out)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has the mode %v, %v", info.Mode(), err)
	}
	block, _ := pem.Decode(text)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	// What mcp-publisher is given is the end of the file.
	if seed := private.(ed25519.PrivateKey).Seed(); !bytes.HasSuffix(block.Bytes, seed) || !strings.Contains(said, "openssl pkey -in '"+strings.ReplaceAll(key, "'", `'\''`)+"' ") {
		t.Error(said)
	}
	record := regexp.MustCompile(`(?m)^  ring\.example\.com\. IN TXT "v=MCPv1; k=ed25519; p=([A-Za-z0-9+/]{43}=)"$`)
	first := record.FindStringSubmatch(said)
	if first == nil || first[1] != base64.StdEncoding.EncodeToString(private.(ed25519.PrivateKey).Public().(ed25519.PublicKey)) {
		t.Fatal(said)
	}
	again, said, err := webring("--base-url", "https://ring.example.com", "--name", "Ring", "--registry-key", key)
	if second := record.FindStringSubmatch(said); err != nil || second == nil || second[1] != first[1] || strings.Contains(said, "A key was made") || at(t, value(t, []byte(again)), "title") != "Ring" {
		t.Errorf("%v: %s%s", err, again, said)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, said, err := webring("--base-url", "https://ring.example.com", "--name", "Ring", "--registry-key", key); err == nil || !strings.Contains(said, "chmod 600") {
		t.Errorf("a key that others can read: %v %s", err, said)
	}
}
