package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"webring/edge/describe"
	"webring/edge/durable"
)

// registryOptions are the flags of `webring mcp-registry`.
type registryOptions struct{ baseURL, name, key string }

func (o *registryOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring mcp-registry", flag.ContinueOnError)
	fs.StringVar(&o.baseURL, "base-url", "", "`URL` under which clients reach the ring, as serve has it")
	fs.StringVar(&o.name, "name", "", "`name` of the ring, as serve has it")
	fs.StringVar(&o.key, "registry-key", "mcp-registry.pem", "`file` with the Ed25519 key that proves the domain to the registry (PKCS #8 as PEM); made if there is none")
	return fs
}

// registryEntry prints the server.json on standard output, and on standard error what proves
// to the registry that the domain is the operator's. Nothing is sent anywhere.
//
// Document: "How to Authenticate When Publishing to the Official MCP Registry", DNS
// authentication, in the documents of the MCP registry.
func registryEntry(args []string, out io.Writer) error {
	var o registryOptions
	words, err := parseWords(o.flags(), args, "")
	if err != nil {
		return err
	}
	if len(words) > 0 || o.baseURL == "" || o.name == "" {
		return misused("mcp-registry")
	}
	base, err := ringURL(o.baseURL)
	if err != nil {
		return err
	}
	if err := registrable(base); err != nil {
		return err
	}
	key, made, err := registryKey(o.key)
	if err != nil {
		return err
	}
	entry, err := describe.RegistryEntry(base.String(), o.name, thisBuild().version)
	if err != nil {
		return err
	}
	if _, err := out.Write(entry); err != nil {
		return err
	}
	if made {
		fmt.Fprintf(os.Stderr, "A key was made: %s. Keep it: each new version of the entry is published with it.\n", o.key)
	}
	domain := base.Hostname()
	fmt.Fprintf(os.Stderr, "Save what is on standard output as server.json. This record at the name itself, not below it, proves the domain:\n\n"+
		"  %s. IN TXT \"v=MCPv1; k=ed25519; p=%s\"\n\n"+
		"When it can be looked up, publish with the registry's own program:\n\n"+
		"  mcp-publisher login dns --domain %s --private-key \"$(openssl pkey -in '%s' -outform DER | tail -c 32 | od -An -vtx1 | tr -d ' \\n')\"\n"+
		"  mcp-publisher publish\n",
		domain, base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)), domain, strings.ReplaceAll(o.key, "'", `'\''`))
	return nil
}

// registrable refuses a base URL that the registry would not take.
func registrable(base *url.URL) error {
	_, err := netip.ParseAddr(base.Hostname())
	if base.Scheme != "https" || err == nil || onlyHere(base.Hostname()) {
		return fmt.Errorf("--base-url %q: the registry takes servers that are reached over https under a domain of their own", base)
	}
	return nil
}

// registryKey reads the key in a file, or makes one there.
func registryKey(path string) (key ed25519.PrivateKey, made bool, err error) {
	text, err := durable.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newRegistryKey(path)
		return key, err == nil, err
	}
	if err != nil {
		return nil, false, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, false, fmt.Errorf("%s has no private key as PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, is := parsed.(ed25519.PrivateKey)
	if err != nil || !is {
		return nil, false, fmt.Errorf("%s has no Ed25519 key in PKCS #8", path)
	}
	return key, false, nil
}

func newRegistryKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, durable.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
