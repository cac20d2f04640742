package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"webring/core/snap"
)

// errUpgrade says that the core of this process does not come to the signed state, and
// that the origin has another core, which may fold events otherwise.
var errUpgrade = errors.New("upgrade this edge")

const (
	// leastRest is how long to wait after a second attempt that failed. The wait doubles
	// up to mostRest, or up to longRest if the core of this process does not come to the
	// state. Each attempt costs an instance of the core, or a core.
	leastRest, mostRest, longRest = time.Second, time.Minute, 10 * time.Minute
)

// failed is a checkpoint that could not be reached.
type failed struct {
	core  [32]byte // that it names
	why   error
	pause time.Duration
	again time.Time // no attempt before this, unless another core is named
}

// tooSoon gives an error while a checkpoint is not to be tried again yet.
func (r *Replica) tooSoon(to snap.Checkpoint) error {
	if f := r.failed; f != nil && to.Core == f.core && time.Now().Before(f.again) {
		return f.why
	}
	return nil
}

// pause notes that a checkpoint could not be reached. A second attempt may come at once,
// later ones after a wait.
func (r *Replica) pause(to snap.Checkpoint, why error, most time.Duration) {
	before := r.failed
	r.failed = &failed{core: to.Core, why: why}
	if before != nil && before.core == to.Core {
		r.failed.pause = min(max(2*before.pause, leastRest), most)
		r.failed.again = time.Now().Add(r.failed.pause)
	}
}

// unreached notes that the core of this process does not come to the signed state.
func (r *Replica) unreached(to snap.Checkpoint, err error) error {
	if to.Core == r.cfg.Module && to.Core != [32]byte{} {
		err = fmt.Errorf("%w; the origin has the same core, so memory has gone bad, here or there", err)
	} else {
		err = fmt.Errorf("%w: %w; the origin's core is sha256:%x, the one here sha256:%x", errUpgrade, err, to.Core, r.cfg.Module)
	}
	r.pause(to, err, longRest)
	r.note(err)
	return err
}

// parted notes, after a checkpoint was refused, that the origin does not go on from what this edge has
// seen signed. An old checkpoint, from a cache or from a node that lags, does not show that: nothing is signed later.
func (r *Replica) parted(to snap.Checkpoint, err error) {
	least := r.least(to)
	switch {
	case r.contradicted:
		r.note(fmt.Errorf("%w: the origin has signed two histories; if it was restored without events that this edge has, stop it, and use webring restore with --from this edge; if its history is to stay, remove the data folder of this edge and start it again", err))
	case to.Size < least.Size && to.Time > least.Time:
		r.note(fmt.Errorf("%w: the origin has lost events that this edge has, as one that was restored from an older copy; stop it, and use webring restore with --from this edge", err))
	}
}

// note notes why what is signed is not reached. Answers are stale from now on, and a file says so for
// `webring version`.
func (r *Replica) note(why error) {
	if before := r.unreachable.Swap(&why); r.store == nil || before != nil && (*before).Error() == why.Error() {
		return
	}
	r.marked = true
	if failed := r.store.write(unreachableName, []byte(why.Error()+"\n")); failed != nil {
		r.log.Warn("follow: the folder cannot say what is not reached", "err", failed)
	}
}

// reached notes that the newest checkpoint was reached.
func (r *Replica) reached(at snap.Checkpoint) {
	r.failed = nil
	if r.unreachable.Swap(nil) != nil {
		r.log.Info("follow: what the origin signs is reached again", "events", at.Size)
	}
	if r.marked {
		_ = os.Remove(r.store.path(unreachableName))
		r.marked = false
	}
}

const unreachableName = "unreachable"

// Unreachable gives what the edge on a folder could not reach when it last tried, ""
// if there is nothing. [Config.Dir] is the folder.
func Unreachable(dir string) (what string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, unreachableName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}
