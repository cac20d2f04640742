package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"webring/edge/durable"
	"webring/edge/voucher"
	"webring/server"
	"webring/server/ledger/cluster"
	"webring/server/pay/mpp"
)

// challengeKeys reads the keys that sign challenges. It returns none if the file belongs in the
// data folder and is not there yet: see [makeChallengeKey]. The file holds a line of at least
// 64 hex digits. A second line is the previous key: its challenges are still taken. Further
// lines are retired keys: they are believed only for payments that were made already.
func challengeKeys(o *options) (mpp.Keys, error) {
	path := secretPath(o)
	// A link to a file that is not there is no reason to make another.
	if _, err := os.Lstat(path); o.mppSecretFile == "" && errors.Is(err, os.ErrNotExist) {
		return mpp.Keys{}, nil
	}
	lines, err := readKeys("--mpp-secret-file", path, mpp.MinKey, maxChallengeKeys)
	if err != nil {
		return mpp.Keys{}, err
	}
	keys := mpp.Keys{Current: lines[0]}
	if len(lines) > 1 {
		keys.Previous, keys.Retired = lines[1], lines[2:]
	}
	return keys, nil
}

// readKeys reads a file with a key of at least so many bytes on each line, and at most so many
// lines. Errors never repeat what the file holds.
func readKeys(setting, path string, least, most int) (keys [][]byte, err error) {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	lines := strings.Fields(string(text))
	if len(lines) < 1 || len(lines) > most {
		return nil, fmt.Errorf("%s: %s must hold 1 to %d lines of hex digits", setting, path, most)
	}
	for i, line := range lines {
		key, err := durable.ParseKey(line, least)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d of %s %w", setting, i+1, path, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// maxChallengeKeys bounds how many keys a credential is verified with.
const maxChallengeKeys = 16

// secretName is the challenge key's file in the data folder and in backups.
const secretName = "mpp-secret"

func secretPath(o *options) string {
	if o.mppSecretFile != "" {
		return o.mppSecretFile
	}
	return filepath.Join(o.data, secretName)
}

// keyFiles are the files that a backup holds in addition to the ledger, by their names in a
// data folder.
func keyFiles(o *options) map[string]string {
	files := map[string]string{secretName: secretPath(o), filepath.Base(server.SyncKeyPath(o.data)): server.SyncKeyPath(o.data)}
	if next := server.NextKeyPath(o.data); exists(next) {
		files[filepath.Base(next)] = next
	}
	if o.cluster.given() {
		files[sealName] = o.cluster.sealPath(o.data)
	}
	return files
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeChallengeKey makes the key that signs challenges, in the data folder and for
// its owner's eyes.
//
// Another process may have made one since this process looked for it, and ended: then that
// is the key. The caller holds the lock of the data folder.
func makeChallengeKey(o *options) (mpp.Keys, error) {
	if keys, err := challengeKeys(o); err != nil || keys.Current != nil {
		return keys, err
	}
	line := durable.NewKey()
	if err := durable.Write(secretPath(o), []byte(line+"\n"), 0o600); err != nil {
		return mpp.Keys{}, fmt.Errorf("--mpp-secret-file: %w", err)
	}
	key, err := durable.ParseKey(line, mpp.MinKey)
	return mpp.Keys{Current: key}, err
}

// describeKeys counts keys.
func describeKeys(keys mpp.Keys) string {
	previous := 0
	if keys.Previous != nil {
		previous = 1
	}
	return fmt.Sprintf("a current, %d previous, %d retired", previous, len(keys.Retired))
}

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

// needKeys says which of the keys that all nodes share is missing.
func needKeys(o *options) error {
	var errs []error
	for _, path := range []string{secretPath(o), server.SyncKeyPath(o.data)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is missing, and must be the same on all nodes: start a ring that has none once without --etcd, or restore a backup of another node into an empty folder", path))
		}
	}
	return errors.Join(errs...)
}

// refuseMarker refuses to serve the folder of a node as an only origin: its ledger would go on
// apart from that of the other nodes.
func refuseMarker(data string) error {
	m, err := cluster.ReadMarker(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s belongs to the node %s of the ring %s in etcd: give --etcd, --cluster-id and --node, or make the ring a single origin again with webring cluster leave", data, m.Node, m.Ring)
}

// Names of other secrets than [secretName].
const (
	signName = "sync-key"
	edgeName = "edge-secret"
)

// sharedSecrets is the Shared of [cluster.Config]. An operator replaces the files while the node
// runs. Signing keys that cannot be read, as in a file that is only half copied, change nothing.
func sharedSecrets(challenges func() mpp.Keys, edge *voucher.Secrets, data string) func() map[string][]string {
	var mu sync.Mutex
	var signs []string
	return func() map[string][]string {
		keys := challenges()
		known := map[string][]string{secretName: {cluster.Fingerprint(secretName, keys.Current)}}
		if keys.Previous != nil {
			known[secretName] = append(known[secretName], cluster.Fingerprint(secretName, keys.Previous))
		}
		for _, secret := range edge.All() {
			known[edgeName] = append(known[edgeName], cluster.Fingerprint(edgeName, secret))
		}
		mu.Lock()
		defer mu.Unlock()
		if verifiers, err := server.Verifiers(data); err == nil {
			signs = nil
			for _, v := range verifiers {
				signs = append(signs, cluster.Fingerprint(signName, []byte(v)))
			}
		}
		known[signName] = signs
		return known
	}
}
