package etcdstore

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The leader says in etcd by which secrets it works, as fingerprints. A node that does not
// know one of them is refused: it would take no challenge of the leader for one of the ring, or
// sign for edges with a key that they do not trust. The leader's own secrets count, whatever
// was said before, so that they can be changed while it leads. Another node leads only if it knows
// what the last leader has said.

// Fingerprint tells a secret from others, and can be shown to everybody. It is a truncated
// HMAC-SHA-256 (RFC 2104) of its name under the secret. It does not hide a secret that can
// be guessed: secrets have at least 32 random bytes.
func Fingerprint(name string, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("webring fingerprint " + name))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// shared gives the fingerprints of this node's secrets, by name; the first is of the one in use.
func (c *Cluster) shared() map[string][]string {
	if c.c.Shared == nil {
		return nil
	}
	return c.c.Shared()
}

// Lacks gives the names of the secrets by which the ring works and which are not among those
// that a node knows, as of [Config.Shared].
func (s Status) Lacks(known map[string][]string) []string { return lacks(s.Shared, known) }

func lacks(ring map[string]string, known map[string][]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(ring)) {
		if !slices.Contains(known[name], ring[name]) {
			names = append(names, name)
		}
	}
	return names
}

// checkShared refuses a node that does not know the secrets of the ring.
func (c *Cluster) checkShared(value []byte) error {
	if value == nil || c.c.Shared == nil {
		return nil
	}
	var ring map[string]string
	if err := decodeText(value, &ring); err != nil {
		return err
	}
	known := c.shared()
	var wrong []string
	for _, name := range lacks(ring, known) {
		has := "none"
		if len(known[name]) > 0 {
			has = strings.Join(known[name], ", ")
		}
		wrong = append(wrong, fmt.Sprintf("%s (fingerprint %s, and here %s)", name, ring[name], has))
	}
	if wrong != nil {
		return fmt.Errorf("%w: this node has not the secrets of the ring: %s: copy what the leader has", ErrRefused, strings.Join(wrong, "; "))
	}
	return nil
}

// share says by which secrets this node works, if that was not said yet.
func (t *Term) share() error {
	uses := map[string]string{}
	for name, known := range t.c.shared() {
		if len(known) > 0 {
			uses[name] = known[0]
		}
	}
	text := encodeText(uses) // in the order of names
	if text == t.shares || len(uses) == 0 {
		return nil
	}
	k := t.c.keys
	resp, err := ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.leader()), "=", t.epoch)).
			Then(clientv3.OpPut(k.shared(), text)).Commit()
	})
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return t.end(fmt.Errorf("%w: another was elected", ErrLost))
	}
	if t.shares != "" {
		t.c.log.Info("the ring has other secrets now", "fingerprints", text)
	}
	t.shares = text
	return nil
}
