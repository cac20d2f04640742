package monitor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/api"
	"webring/core/snap"
	"webring/edge/follow"
	log "webring/edge/tlog"
)

const (
	leaderboardPath = "/api/leaderboard"
	maxLeaderboard  = 4 << 20
	maxNote         = 16 << 10
	// unsigned is for how many seconds a position that is shown may lack a signature, and
	// behind for how many the leaderboard may be of an earlier position than was signed.
	unsigned, behind = 20, 5
	// around is by how many seconds the clock of the core that drew the leaderboard may differ
	// from the Date of the answer.
	around = 3
)

// ErrWrong is wrapped by every error that says that something is not as it was signed. After
// any other error, something could not be looked at, and nothing was found to be wrong.
var ErrWrong = errors.New("wrong")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrWrong, fmt.Errorf(format, args...))
}

// Config says what is verified, and against what.
type Config struct {
	// Site is the URL of an origin or an edge. Save is a folder that keeps what is fetched, ""
	// for none. Without a Site, the ring is verified that was saved there.
	Site, Save string
	// Keys are the verifiers of the ring that are trusted. Without any, the one is that was
	// remembered, and in the first place the one that the ring names.
	Keys []string
	// Policy says which witnesses must have cosigned; nil for none.
	Policy *log.Policy
	Memory Memory
	// Core is the SHA-256 of the core that this program has as a module, as the ring signs that of
	// its own; the zero value where that is not known.
	Core [32]byte
	// Capacity is how many members can ever have joined.
	Capacity int
	// Each is given each event, with its number, before it is known whether it is signed. It may
	// be nil.
	Each func(index uint64, e core.Event)
	// Say is told how far it has come.
	Say func(events, of uint64)

	rest time.Duration // before something is fetched again; 0 stands for a second
}

// Report is what was verified.
type Report struct {
	Keys   []string // verifiers
	Trust  Trust
	At     log.Checkpoint
	Signed snap.Checkpoint // the statement about the state
	Before *log.Checkpoint // the one that was remembered, nil for none
	Others []string        // other logs, by their origin lines, that were verified at the same URL
	Cosigned
	Members int
	Untold  int       // snapshots of states with words that were redacted later, so that they cannot be compared
	Shown   uint64    // events that the leaderboard is of
	As      time.Time // of the leaderboard
	Payers  Payers
	Bytes   int64 // fetched
}

// Trust says where a key is from.
type Trust int

const (
	Given      Trust = iota // by the caller
	Remembered              // from an earlier verification
	Claimed                 // by the ring itself
)

// run is one verification.
type run struct {
	Config
	Report
	from    answers
	keys    note.Verifiers
	last    remembered
	signed  []byte   // the checkpoint
	earlier [][]byte // other checkpoints, which it must continue

	statement []byte          // what the ring signs about its state, which is a checkpoint too
	states    [][16]byte      // the digest of the state after each event, zero where words are missing
	wordless  map[string]bool // members with words that did not come, until their redaction
}

// Verify fetches the whole log of a ring, checks it, folds it in a core of its own, and
// compares the leaderboard with the one that the ring shows.
//
// The error is a [*Contradiction], or wraps [ErrWrong], or says what could not be looked at.
func Verify(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c}
	var site *site
	if c.Site == "" {
		r.from = folder(c.Save)
	} else {
		var err error
		if site, err = newSite(c.Site, c.Save); err != nil {
			return nil, err
		}
		r.from = site
	}
	if err := r.trust(ctx); err != nil {
		return nil, err
	}
	err := r.verify(ctx)
	if site != nil {
		r.Bytes = site.bytes.Load()
		if bad := errors.Is(err, ErrWrong); bad || err == nil {
			err = errors.Join(err, site.end(bad))
		}
	}
	return &r.Report, err
}

// trust finds the keys of the ring.
func (r *run) trust(ctx context.Context) error {
	words := r.Config.Keys
	if len(words) == 0 && r.Policy != nil {
		words = r.Policy.Logs()
	}
	if len(words) == 0 {
		signed, err := r.from.get(ctx, log.CheckpointPath, maxNote)
		if err != nil {
			return err
		}
		origin, _, _ := bytes.Cut(signed.body, []byte("\n"))
		last, err := r.Memory.recall(string(origin))
		if err != nil {
			return err
		}
		r.Trust = Remembered
		if words = strings.Fields(last.key); len(words) == 0 {
			r.Trust = Claimed
		}
		if words, err = r.claimed(ctx, words); err != nil {
			return err
		}
	}
	var err error
	r.Report.Keys = words
	r.keys, err = log.Keys(words...)
	return err
}

// claimed gives the verifiers that the ring itself names. If others are trusted, one of those must
// have signed that, or the trusted ones are given.
func (r *run) claimed(ctx context.Context, trusted []string) ([]string, error) {
	signed, err := r.from.get(ctx, "/sync/keys", maxNote)
	if err != nil {
		return nil, err
	}
	if len(trusted) > 0 {
		keys, err := log.Keys(trusted...)
		if err != nil {
			return nil, err
		}
		if _, err := note.Open(signed.body, keys); err != nil {
			return trusted, nil
		}
	}
	text, _, _ := strings.Cut(string(signed.body), "\n\n")
	keys, err := snap.ParseKeys(text + "\n")
	if err != nil {
		return nil, wrong("what the ring says about its keys: %w", err)
	}
	words := []string{keys.Current}
	if keys.Next != "" {
		words = append(words, keys.Next)
	}
	return words, nil
}

func (r *run) verify(ctx context.Context) error {
	if err := r.state(ctx); err != nil {
		return err
	}
	if err := r.recall(); err != nil {
		return err
	}
	shown, err := r.leaderboard(ctx)
	if err != nil {
		return err
	}
	if err := r.checkpoint(ctx, shown.seq); err != nil {
		return err
	}
	if err := r.continues(ctx); err != nil {
		return err
	}
	if err := r.replay(ctx, shown); err != nil {
		return err
	}
	if r.Others, err = r.Memory.shown(r.Site, r.At.Origin); err != nil {
		return err
	}
	if r.Before != nil && r.Before.N > r.At.N {
		return nil // a folder that was saved before
	}
	return r.Memory.remember(r.At.Origin, remembered{strings.Join(r.Report.Keys, " "), r.signed})
}

// state fetches what the ring signs about its state.
func (r *run) state(ctx context.Context) error {
	signed, err := r.from.get(ctx, "/sync/checkpoint", maxNote)
	if err != nil {
		return err
	}
	if r.Signed, err = follow.Verify(signed.body, r.keys); err != nil {
		return wrong("what the ring signs about its state: %w", err)
	}
	r.statement = signed.body
	return nil
}

// recall finds what was verified last.
func (r *run) recall() (err error) {
	if r.last, err = r.Memory.recall(r.Signed.Origin); err != nil || r.last.signed == nil {
		return err
	}
	keys, err := log.Keys(strings.Fields(r.last.key)...)
	if err != nil {
		return err
	}
	before, err := log.OpenCheckpoint(r.last.signed, keys)
	if err != nil {
		return fmt.Errorf("the checkpoint that was remembered: %w", err)
	}
	r.Before = &before
	return nil
}

// leaderboard fetches the leaderboard, again while it is of an earlier position than one that
// was signed before: a node may be a little behind.
func (r *run) leaderboard(ctx context.Context) (shown answer, err error) {
	for second := 0; ; second++ {
		shown, err = r.from.get(ctx, leaderboardPath, maxLeaderboard)
		switch {
		case err != nil:
			return shown, err
		case shown.seq == 0 || shown.date == 0:
			return shown, errors.New("the leaderboard does not say of which position and time it is")
		case shown.seq >= r.Signed.Size:
			return shown, nil
		case r.offline() || second == behind:
			return shown, wrong("the leaderboard is of %d events, and %d were signed before it was asked for: it is an old one", shown.seq, r.Signed.Size)
		}
		if err := follow.Rest(ctx, cmp.Or(r.rest, time.Second)); err != nil {
			return shown, err
		}
	}
}

// get gives the body of an answer.
func (r *run) get(ctx context.Context, path string, most int64) ([]byte, error) {
	a, err := r.from.get(ctx, path, most)
	return a.body, err
}

func (r *run) offline() bool { return r.Site == "" }

// checkpoint fetches what is signed, again until it is of at least so many events, and of as many as
// were verified before. The log's own checkpoint may be a little behind what the ring signs about
// its state, because witnesses cosign it.
func (r *run) checkpoint(ctx context.Context, least uint64) error {
	for second := 0; ; second++ {
		signed, err := r.from.get(ctx, log.CheckpointPath, maxNote)
		if err != nil {
			return err
		}
		at, err := log.OpenCheckpoint(signed.body, r.keys)
		if err != nil {
			return wrong("%w", err)
		}
		r.signed, r.At, r.earlier = signed.body, at, [][]byte{r.statement}
		if uint64(at.N) < r.Signed.Size {
			r.signed, r.earlier = r.statement, [][]byte{signed.body}
			if r.At, err = log.OpenCheckpoint(r.signed, r.keys); err != nil {
				return wrong("%w", err)
			}
		}
		shrunk := !r.offline() && r.Before != nil && r.At.N < r.Before.N
		switch {
		case uint64(r.At.N) >= least && !shrunk:
			r.Cosigned, err = cosigned(signed.body, at, r.Policy)
			return err
		case shrunk && second == unsigned:
			return r.shrunk(ctx)
		case r.offline() || second == unsigned:
			return wrong("the ring shows %d events, and has signed %d", least, r.At.N)
		}
		if err := follow.Rest(ctx, cmp.Or(r.rest, time.Second)); err != nil {
			return err
		}
		if err := r.state(ctx); err != nil {
			return err
		}
	}
}

// shrunk says what a checkpoint of fewer events than were verified before is: one of another
// history, if tiles of the longer one can be had that show that, or an older one.
func (r *run) shrunk(ctx context.Context) error {
	err := log.Continues(r.signed, r.last.signed, r.verifiers(), log.Get(r.get).Hashes(ctx))
	if _, ok := errors.AsType[*log.Contradiction](err); ok {
		return err
	}
	older := wrong("the ring shows an older checkpoint, of %d events, and had signed %d before", r.At.N, r.Before.N)
	if err != nil {
		return fmt.Errorf("%w; whether the two contradict each other is not known: %w", older, err)
	}
	return fmt.Errorf("%w; the two do not contradict each other", older)
}

// verifiers gives those that are trusted, and those of the last verification.
func (r *run) verifiers() []string {
	words := slices.Concat(r.Report.Keys, strings.Fields(r.last.key))
	slices.Sort(words)
	return slices.Compact(words)
}

// continues checks that the checkpoint continues the one that was verified last, and the other one
// that the ring has signed now. That takes a few tiles.
func (r *run) continues(ctx context.Context) error {
	if r.Before != nil && r.Before.N <= r.At.N { // a folder that was saved before has no tiles of it
		r.earlier = append(r.earlier, r.last.signed)
	}
	for _, earlier := range r.earlier {
		err := log.Continues(r.signed, earlier, r.verifiers(), log.Get(r.get).Hashes(ctx))
		if _, ok := errors.AsType[*log.Contradiction](err); err != nil && !ok {
			err = fmt.Errorf("whether the checkpoint continues an earlier one: %w", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replay folds all events of the checkpoint. On the way it compares the leaderboard and the
// digest of the state. Only the root shows that the events are the ring's, so nothing else is
// said before that is compared.
func (r *run) replay(ctx context.Context, shown answer) error {
	state := core.NewState(r.Capacity, rand.Uint64())
	r.Payers, r.wordless = Payers{}, map[string]bool{}
	var tree snap.Tree
	var refusal error
	err := log.Records(ctx, r.get, 0, uint64(r.At.N), func(records []snap.Record) error {
		for _, record := range records {
			tree.Add(record.Event)
			if refusal == nil {
				refusal = r.fold(state, record)
			}
			if refusal == nil && tree.Size() == shown.seq {
				refusal = r.compare(state, shown)
			}
			if refusal == nil && tree.Size() == r.Signed.Size && state.Digest() != r.Signed.State {
				refusal = r.differs("the events lead to another state than the signed one of %d events", r.Signed.Size)
			}
		}
		r.Say(tree.Size(), uint64(r.At.N))
		return nil
	})
	if errors.Is(err, log.ErrBundle) {
		err = wrong("%w", err)
	}
	if err == nil && tree.Root() != r.At.Hash {
		err = wrong("the events do not lead to the signed root of %d events", r.At.N)
	}
	if err == nil {
		err = refusal
	}
	r.Members = state.Len()
	return err
}

// fold folds one event.
func (r *run) fold(state *core.State, record snap.Record) error {
	e, err := core.DecodeEvent(record.Event)
	if err != nil {
		return fmt.Errorf("this program does not know event %d, a newer one may: %w", state.Seq(), err)
	}
	if err := snap.VerifyTexts(e, record.Texts); err != nil {
		return wrong("event %d: %w", state.Seq(), err)
	}
	err = state.Apply(record.Event, record.Texts)
	switch {
	case errors.Is(err, core.ErrCapacity):
		return fmt.Errorf("more than %d members have joined: give a higher --capacity", r.Capacity)
	case err != nil:
		return wrong("event %d, which the rules do not allow: %w", state.Seq(), err)
	}
	if c := core.CommitmentsOf(e); c.Words == nil && c.Some() && len(record.Texts) == 0 {
		r.wordless[core.MemberOf(e)] = true
	}
	if gone, ok := e.(*core.Removed); ok && gone.Redacted {
		delete(r.wordless, gone.Member)
	}
	digest := [16]byte{}
	if len(r.wordless) == 0 {
		digest = state.Digest()
	}
	r.states = append(r.states, digest)
	if s, ok := e.(*core.Snapshotted); ok && s.Core == r.Core {
		switch r.states[s.Size-1] {
		case [16]byte{}:
			r.Untold++
		case s.State:
		default:
			return wrong("event %d says that the snapshot of %d events has another state than the events lead to: the snapshot is a lie", state.Seq()-1, s.Size)
		}
	}
	r.Payers.add(e)
	if r.Each != nil {
		r.Each(state.Seq()-1, e)
	}
	return nil
}

// differs says that this program has computed something else than the ring. That is wrong, unless
// the ring runs another core, or words are missing: then it is not known.
func (r *run) differs(format string, args ...any) error {
	if len(r.wordless) > 0 {
		slug := slices.Min(slices.Collect(maps.Keys(r.wordless)))
		return fmt.Errorf("%w; words of member %s are missing: if the ring has just redacted them, verify again; if it says this again, the ring withholds them", fmt.Errorf(format, args...), slug)
	}
	if none := [32]byte{}; r.Core != none && r.Signed.Core != none && r.Core != r.Signed.Core {
		return fmt.Errorf("%w; the ring runs another version of the core, so verify it with a program of that version", fmt.Errorf(format, args...))
	}
	return wrong(format, args...)
}

// compare compares the leaderboard that the ring shows with that of the state, at about the
// second at which it was drawn.
func (r *run) compare(state *core.State, shown answer) error {
	r.Shown = shown.seq
	var own api.Response
	for second := shown.date - around; second <= shown.date+around; second++ {
		state.Advance(second)
		api.Serve(state, []byte(leaderboardPath), 0, &own)
		if bytes.Equal(own.Body, shown.body) {
			r.As = time.Unix(second, 0).UTC()
			return nil
		}
	}
	return r.differs("%s is not what the events lead to, at %d events and %s", leaderboardPath, shown.seq, time.Unix(shown.date, 0).UTC().Format(time.RFC3339))
}
