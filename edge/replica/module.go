package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"webring/core/snap"
)

const (
	// maxModule is the longest module that is taken, in bytes.
	maxModule = 64 << 20
	// refusedForNow is how long a module that could not be had is left alone,
	// refusedForLong one that was tried and failed, which may be for want of memory
	// or time, and refusedForGood one that cannot be hosted or misled readers.
	refusedForNow  = time.Minute
	refusedForLong = time.Hour
	refusedForGood = 10 * 365 * 24 * time.Hour
)

// offers says whether a checkpoint names another module than the one at hand
// that could be run here. A host that cannot load modules is never offered one.
func (r *Replica) offers(to snap.Checkpoint) bool {
	if len(r.cfg.Own.Code) == 0 || to.Core == [32]byte{} || to.Core == r.module.Digest || time.Now().Before(r.refused[to.Core]) {
		return false
	}
	if to.ABI != r.cfg.Own.ABI {
		r.refuse(to.Core, refusedForGood)
		r.log.Warn("replica: the origin's core cannot be hosted here; going on with the one at hand: install a newer webring",
			"abi", to.ABI, "here", r.cfg.Own.ABI, "core", fmt.Sprintf("%x", to.Core))
		return false
	}
	return true
}

func (r *Replica) refuse(digest [32]byte, d time.Duration) { r.refused[digest] = time.Now().Add(d) }

// renew loads the module that a checkpoint names, if it can.
func (r *Replica) renew(ctx context.Context, to snap.Checkpoint) {
	if !r.offers(to) {
		return
	}
	if err := r.upgrade(ctx, to); err != nil {
		r.log.Warn("replica: refused; going on with the core at hand", "err", err)
	}
}

// obtain gets the module that a checkpoint names.
func (r *Replica) obtain(ctx context.Context, to snap.Checkpoint) (Module, error) {
	if to.Core == r.cfg.Own.Digest {
		return r.cfg.Own, nil
	}
	_, again := r.refused[to.Core]
	code, err := r.get(ctx, fmt.Sprintf("/sync/core/%x", to.Core), maxModule, again)
	if err == nil && sha256.Sum256(code) != to.Core {
		err = fmt.Errorf("%w: %w", ErrModule, errAltered)
	}
	if err != nil {
		r.refuse(to.Core, refusedForNow)
		return Module{}, err
	}
	return Module{Code: code, Digest: to.Core, ABI: to.ABI}, nil
}

// upgrade loads the module that a checkpoint names at the position that is
// shown, has it answer what the one at hand answers, and shows it. What was
// tried is the judge then: it can be interrupted, which what readers get cannot.
func (r *Replica) upgrade(ctx context.Context, to snap.Checkpoint) error {
	m, err := r.obtain(ctx, to)
	if err != nil {
		return err
	}
	if err := r.summon(ctx); err != nil {
		return err // no fault of the module
	}
	tried, err := r.reopen(ctx, m, r.shown, false)
	if errors.Is(err, errNoSnapshot) {
		return err // nor this
	}
	if err != nil {
		r.refuse(m.Digest, refusedForLong)
		return fmt.Errorf("%w: %w", ErrModule, err)
	}
	if err := r.examine(tried, m); err != nil {
		r.refuse(m.Digest, refusedForLong)
		return errors.Join(fmt.Errorf("%w: %w", ErrModule, err), tried.Close())
	}
	r.dismiss()
	r.judge = tried
	if err := r.present(ctx, m); err != nil {
		r.dismiss()
		r.refuse(m.Digest, refusedForLong)
		return fmt.Errorf("%w: %w", ErrModule, err)
	}
	if r.store != nil {
		r.store.keepModule(m)
	}
	r.log.Info("replica: another core answers from now on", "core", fmt.Sprintf("%x", m.Digest), "events", r.at.Size)
	return nil
}

// present shows a module where the judge stands.
func (r *Replica) present(ctx context.Context, m Module) error {
	c, err := r.follower(ctx, m, r.at)
	if err != nil {
		return err
	}
	r.show(c, m)
	return nil
}

// foreign says that a module is another than that of this process.
func (r *Replica) foreign(m Module) bool { return m.Digest != r.cfg.Own.Digest }

// retreat puts the core of this process in place of one that was named by a
// checkpoint and cannot fold what it should, if this one can: its answers are
// examined before a module is shown, but what it makes of later events is not
// known then. It leaves a judge behind that has folded the records.
func (r *Replica) retreat(ctx context.Context, records []snap.Record, to snap.Checkpoint) bool {
	own := r.cfg.Own
	if !r.foreign(r.module) {
		return false
	}
	judge, err := r.reopen(ctx, own, r.shown, false)
	if err != nil {
		return false
	}
	if err = apply(judge, records); err == nil {
		err = checkState(judge, to)
	}
	var c Core
	if err == nil {
		c, err = r.reopen(ctx, own, r.shown, true)
	}
	if err != nil {
		_ = judge.Close()
		return false
	}
	r.giveUp()
	r.show(c, own)
	r.judge = judge
	return true
}

// giveUp has the module that is shown never be loaded again.
func (r *Replica) giveUp() {
	r.log.Warn("replica: refused; going back to the core of this process", "err", fmt.Errorf("%w: it cannot fold what comes", ErrModule), "core", fmt.Sprintf("%x", r.module.Digest))
	r.refuse(r.module.Digest, refusedForGood)
	if r.store != nil {
		r.store.forgetModules()
	}
}

// stored gives the modules that may have served a checkpoint before the restart:
// the one that it names, if that is on disk, that of this process, and any other
// that is, which was shown where the one that is named could not be.
func (r *Replica) stored(to snap.Checkpoint) []Module {
	modules := []Module{r.cfg.Own}
	if len(r.cfg.Own.Code) == 0 {
		return modules
	}
	for _, digest := range r.store.modules() {
		code, err := r.store.module(digest)
		switch {
		case err != nil || sha256.Sum256(code) != digest || digest == r.cfg.Own.Digest:
		case digest != to.Core:
			// It was of this ABI when it was kept, or its host will say so.
			modules = append(modules, Module{code, digest, r.cfg.Own.ABI})
		case to.ABI == r.cfg.Own.ABI:
			modules = append([]Module{{code, digest, to.ABI}}, modules...)
		}
	}
	return modules
}
