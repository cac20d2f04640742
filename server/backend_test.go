package server

import (
	"io"
	"testing"

	"webring/core/snap"
	"webring/server/publish"
)

// numbered is a source with one checkpoint at a time.
type numbered struct {
	at      string
	changed chan struct{}
}

func (s *numbered) Checkpoint() []byte       { return []byte(s.at) }
func (s *numbered) Keys() []byte             { return nil }
func (s *numbered) Changed() <-chan struct{} { return s.changed }
func (s *numbered) Events(uint64, int) ([]snap.Record, error) {
	return []snap.Record{{Event: []byte(s.at)}}, nil
}
func (s *numbered) Snapshot([32]byte) (io.ReadCloser, int64, error) { return nil, 0, snap.ErrNotHeld }

var _ publish.Source = (*numbered)(nil)

// A follower that waits for a checkpoint learns of those of whichever source there is.
func TestAFollowerStaysWhenItsSourceIsSwitched(t *testing.T) {
	t.Parallel()
	w := new(switchedSource)
	first := &numbered{"1", make(chan struct{})}
	w.use(first)
	changed := w.Changed()
	if got := string(w.Checkpoint()); got != "1" {
		t.Errorf("the checkpoint is %s", got)
	}
	second := &numbered{"2", make(chan struct{})}
	w.use(second)
	<-changed // the second source
	if got := string(w.Checkpoint()); got != "2" {
		t.Errorf("the checkpoint is %s", got)
	}
	changed = w.Changed()
	close(second.changed)
	<-changed // a checkpoint of the second source
	w.end()
}
