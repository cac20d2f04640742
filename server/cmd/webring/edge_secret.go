package main

import (
	"encoding/hex"
	"fmt"
	"strings"

	"webring/server/durable"
)

const edgeSecretUsage = "`file` with the secret that origin and edges share: a line of at least 64 hex digits"

// edgeSecret reads what origin and edges share, nil when no file is named.
// Errors never repeat what the file holds.
func edgeSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("--edge-secret-file: %w", err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) < 32 {
		return nil, fmt.Errorf("--edge-secret-file: %s is not a line of at least 64 hex digits", path)
	}
	return secret, nil
}
