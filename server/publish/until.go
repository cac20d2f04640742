package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"webring/server/durable"
)

// untilName is the file that says up to which time, in milliseconds since 1970,
// checkpoints may have been signed. Edges refuse a checkpoint that is older than the
// last, so a process whose clock was set back signs for no earlier time than that. The
// file is written some time ahead, so that few checkpoints wait for the disk; after a
// restart, checkpoints are ahead of the clock for no longer than that.
const (
	untilName = "signed-until"
	ahead     = 5 * time.Second
)

// readUntil reads the file, 0 when there is none.
func (p *Publisher) readUntil() (int64, error) {
	path := filepath.Join(p.c.Dir, untilName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	until, err := strconv.ParseInt(strings.TrimSuffix(string(text), "\n"), 10, 64)
	if err != nil || until < 0 {
		return 0, fmt.Errorf("publish: %s is damaged: without it, checkpoints may be signed that edges refuse as older than the last; remove it if the clock is right", path)
	}
	if early := time.UnixMilli(until).Sub(p.c.Now()); early > 2*ahead {
		p.c.Log.Warn("publish: checkpoints were signed for later than it is now, and are until the clock is there: is it right?",
			"until", time.UnixMilli(until).UTC(), "file", path)
	}
	return until, nil
}

// maySign writes the file unless it covers a time, in milliseconds. The caller holds mu.
func (p *Publisher) maySign(ms int64) error {
	if ms <= p.until {
		return nil
	}
	// By the clock: restarts that follow each other do not add up.
	until := max(ms, p.c.Now().Add(ahead).UnixMilli())
	if err := durable.Write(filepath.Join(p.c.Dir, untilName), strconv.AppendInt(nil, until, 10), 0o600); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	p.until = until
	return nil
}
