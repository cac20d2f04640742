package main

import (
	"sync"

	"webring/edge/voucher"
	"webring/server/ledger/etcdstore"
	"webring/server/pay/mpp"
	"webring/server/publish"
)

// sharedSecrets are what must be the same on all nodes of a cluster. Its all is the Shared of
// [etcdstore.Config].
type sharedSecrets struct {
	challenges func() mpp.Keys
	edge       func() *voucher.Secrets
	data       string

	mu    sync.Mutex
	signs []string // fingerprints of the keys that sign for edges, as they could be read last
}

// all gives the fingerprints: of each secret the one in use, and then the next or previous one.
func (s *sharedSecrets) all() map[string][]string {
	keys := s.challenges()
	known := map[string][]string{secretName: {etcdstore.Fingerprint(secretName, keys.Current)}, signName: s.signing()}
	if keys.Previous != nil {
		known[secretName] = append(known[secretName], etcdstore.Fingerprint(secretName, keys.Previous))
	}
	for _, secret := range s.edge().All() {
		known[edgeName] = append(known[edgeName], etcdstore.Fingerprint(edgeName, secret))
	}
	return known
}

// Names of secrets beside [secretName].
const (
	signName = "sync-key"
	edgeName = "edge-secret"
)

// signing reads the keys anew, which an operator replaces. A file that is only half copied
// changes nothing.
func (s *sharedSecrets) signing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	verifiers, err := verifiersOf(s.data)
	if err == nil {
		s.signs = nil
		for _, v := range verifiers {
			s.signs = append(s.signs, etcdstore.Fingerprint(signName, []byte(v)))
		}
	}
	return s.signs
}

// verifiersOf are those of the keys that sign for edges, as they lie in a data folder now.
func verifiersOf(data string) ([]string, error) {
	key, err := publish.ReadKey(syncKeyPath(data))
	if err != nil {
		return nil, err
	}
	next, err := publish.ReadNext(nextKeyPath(data))
	if next == nil {
		return []string{key.Verifier()}, err
	}
	return []string{key.Verifier(), next.Verifier()}, err
}
