package main

import (
	"fmt"

	"webring/edge/voucher"
)

const edgeSecretUsage = "`file` with the secret that origin and edges share: a line of at least 64 hex digits, then the previous secret, which still counts"

// maxEdgeSecrets is how many secrets count at a time: the current one and the previous.
const maxEdgeSecrets = 2

// readEdgeSecrets reads what origin and edges share.
func readEdgeSecrets(path string) ([][]byte, error) {
	return readKeys("--edge-secret-file", path, 32, maxEdgeSecrets)
}

// openEdgeSecrets gives what origin and edges share, nil when no file is named.
func openEdgeSecrets(path string) (*voucher.Secrets, error) {
	if path == "" {
		return nil, nil
	}
	all, err := readEdgeSecrets(path)
	if err != nil {
		return nil, err
	}
	return voucher.NewSecrets(all...)
}

// reloadEdgeSecrets prepares to take the secrets that the file at path holds now.
func reloadEdgeSecrets(secrets *voucher.Secrets, path string) (change, error) {
	if secrets == nil || path == "" {
		return change{}, errRestart
	}
	all, err := readEdgeSecrets(path)
	if err != nil {
		return change{}, err
	}
	if secrets.Are(all...) {
		return change{}, nil
	}
	return change{said: fmt.Sprintf("secrets that count: %d", len(all)), apply: func() error { return secrets.Replace(all...) }}, nil
}
