package follow

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"webring/edge/durable"
	log "webring/edge/tlog"
)

// contradictionName is the file of evidence in the folder, in the form of [log.Contradiction].
const contradictionName = "contradiction"

// contradicts looks, after a checkpoint was refused, whether it and the one that readers see, or what
// was signed before a restart, show that the origin has signed two histories. If so, it keeps the evidence. It looks again after a
// while only, and never once it has evidence.
func (r *Replica) contradicts(ctx context.Context, refused Signed) {
	before := r.signed
	if before == nil {
		before = r.floorText
	}
	if now := time.Now(); before == nil || r.contradicted || now.Sub(r.compared) < time.Minute {
		return
	}
	r.compared = time.Now()
	later, _, _ := CutCosigned(refused.Text)
	earlier, _, _ := CutCosigned(before)
	get := log.Get(func(ctx context.Context, path string, most int64) ([]byte, error) {
		return r.link.Get(ctx, path, most, true)
	})
	err := log.Continues(later, earlier, r.keys.words(), get.Hashes(ctx))
	c, ok := errors.AsType[*log.Contradiction](err)
	if !ok {
		if err != nil {
			r.log.Warn("follow: whether what was refused contradicts what was signed before is not known", "err", err)
		}
		return
	}
	r.contradicted = true
	if r.cfg.Dir == "" {
		r.log.Error("follow: the origin has signed two histories; keep this evidence: webring verify --evidence FILE checks it", "evidence", string(c.Text()))
		return
	}
	path := filepath.Join(r.cfg.Dir, contradictionName)
	err = durable.Write(path, c.Text(), 0o600)
	r.log.Error("follow: the origin has signed two histories; keep the evidence: webring verify --evidence FILE checks it", "evidence", path, "err", err)
}

// words gives the verifiers that are trusted.
func (k *keyring) words() (words []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.held {
		words = append(words, key.word)
	}
	return words
}
