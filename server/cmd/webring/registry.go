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
	"os"
	"strings"

	"webring/edge/describe"
	"webring/edge/durable"
)

// registryEntry gives the server.json, and on standard error what proves to the registry that the
// domain is the operator's. Nothing is sent anywhere, and nothing is written but the files that
// the operator names.
//
// Document: "How to Authenticate When Publishing to the Official MCP Registry", DNS
// authentication, in the documents of the MCP registry.
func registryEntry(fs *flag.FlagSet) action {
	baseURL := fs.String("base-url", "", "`URL` under which clients reach the ring, as serve has it")
	name := fs.String("name", "", "`name` of the ring, as serve has it")
	to := fs.String("out", "", "`file` to write server.json to; printed if not set")
	file := fs.String("registry-key", "", "`file` with the Ed25519 key that proves the domain to the registry (PKCS #8 as PEM); made if there is none. No proof is printed if not set")
	return func(words []string, out io.Writer) error {
		if len(words) > 0 || *baseURL == "" || *name == "" {
			return errUsage
		}
		base, err := ringURL(*baseURL)
		if err != nil {
			return err
		}
		domain := base.Hostname()
		if _, err := netip.ParseAddr(domain); base.Scheme != "https" || err == nil || onlyHere(domain) {
			return fmt.Errorf("--base-url %q: the registry takes servers that are reached over https under a domain of their own", base)
		}
		entry, err := describe.RegistryEntry(base.String(), *name, thisBuild().version)
		if err != nil {
			return err
		}
		if *to != "" && *to == *file {
			return fmt.Errorf("--out and --registry-key name the same file, %s; the key needs one of its own", *to)
		}
		var key ed25519.PrivateKey
		made := false
		if *file != "" {
			if key, made, err = registryKey(*file); err != nil {
				return err
			}
		}
		saved := "server.json"
		if *to != "" {
			saved = *to
			err = durable.Write(*to, entry, 0o644)
		} else {
			_, err = out.Write(entry)
		}
		if err != nil {
			return err
		}
		if made {
			fmt.Fprintf(os.Stderr, "A key was made: %s. Keep it: each new version of the entry is published with it.\n", *file)
		}
		if key == nil {
			fmt.Fprintln(os.Stderr, "To prove the domain to the registry, name a file for the key: --registry-key FILE. The key is made there if there is none.")
			return nil
		}
		fmt.Fprintf(os.Stderr, "This record at the name itself, not below it, proves the domain:\n\n"+
			"  %s. IN TXT \"v=MCPv1; k=ed25519; p=%s\"\n\n"+
			"When it can be looked up, publish with the registry's own program:\n\n"+
			"  mcp-publisher login dns --domain %s --private-key \"$(openssl pkey -in %s -outform DER | tail -c 32 | od -An -vtx1 | tr -d ' \\n')\"\n"+
			"  mcp-publisher publish --file=%s\n",
			domain, base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)), domain, shellWord(*file), shellWord(saved))
		return nil
	}
}

// shellWord quotes a word for a shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// registryKey reads the key in a file, or makes one there.
func registryKey(path string) (key ed25519.PrivateKey, made bool, err error) {
	text, err := durable.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, false, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, false, err
		}
		return key, true, durable.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
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
