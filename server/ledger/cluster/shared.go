package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The leader says in etcd which secrets it works with, as fingerprints. A node that lacks one of
// them is refused: it would not recognise the leader's challenges, or would sign for edges with a
// key that they do not trust. The leader can change its secrets while it leads. Another node can
// lead only if it knows what the last leader said.

// Fingerprint identifies a secret and can be shown to anyone. It is a truncated HMAC-SHA-256
// (RFC 2104) of the secret's name, keyed with the secret. It does not hide a secret that can be
// guessed: secrets have at least 32 random bytes.
func Fingerprint(name string, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("webring fingerprint " + name))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Lacks names the secrets of the ring that are not among the ones a node knows, as
// [Config.Shared] gives them.
func (s Status) Lacks(known map[string][]string) []string { return lacks(s.Shared, known) }

func lacks(ring map[string]string, known map[string][]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(ring)) {
		if !slices.Contains(known[name], ring[name]) {
			names = append(names, name)
		}
	}
	return names
}

// checkShared refuses a node that lacks a secret of the ring. value is what etcd holds.
func (c *Cluster) checkShared(value []byte) error {
	if value == nil || c.c.Shared == nil {
		return nil
	}
	var ring map[string]string
	if err := decodeText(value, &ring); err != nil {
		return err
	}
	known := c.c.Shared()
	var wrong []string
	for _, name := range lacks(ring, known) {
		has := "none"
		if len(known[name]) > 0 {
			has = strings.Join(known[name], ", ")
		}
		wrong = append(wrong, fmt.Sprintf("%s (fingerprint %s, and here %s)", name, ring[name], has))
	}
	if wrong != nil {
		return fmt.Errorf("%w: this node does not have the secrets of the ring: %s: copy what the leader has", ErrRefused, strings.Join(wrong, "; "))
	}
	return nil
}

// share tells etcd which secrets this node works with, if they have changed.
func (t *Term) share() error {
	if t.c.c.Shared == nil {
		return nil
	}
	uses := map[string]string{}
	for name, known := range t.c.c.Shared() {
		if len(known) > 0 {
			uses[name] = known[0]
		}
	}
	text := encodeText(uses) // in the order of names
	if text == t.shares || len(uses) == 0 {
		return nil
	}
	if err := t.fenced(t.ctx, clientv3.OpPut(t.c.keys.shared(), text)); err != nil {
		return err
	}
	if t.shares != "" {
		t.c.log.Info("the ring has other secrets now", "fingerprints", text)
	}
	t.shares = text
	return nil
}
