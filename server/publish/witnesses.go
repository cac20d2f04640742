package publish

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/durable"
	"webring/edge/follow"
	"webring/edge/tlog"
	"webring/edge/witness"
)

// The publisher asks witnesses (C2SP tlog-witness) to cosign the log: at most once a minute, and
// only when the log has grown or a witness has not cosigned its present size. Nothing else waits
// for that. A witness that is down or behind only delays what is witnessed. If a witness shows a
// checkpoint that this ring's key has signed and that this ledger contradicts, nothing is signed
// any more: there are two histories, and an operator has to find out why.

const (
	// witnessTime bounds a question to a witness, and witnessAnswer its answer in bytes.
	witnessTime   = 10 * time.Second
	witnessAnswer = 16 << 10
	// witnessedName is the file of what was cosigned last, in the folder of the publisher, and
	// contradictionName that of two checkpoints that contradict each other.
	witnessedName     = "witnessed"
	contradictionName = "contradiction"
)

// ErrContradicted says that nothing is signed, because this ring's key has signed another history.
var ErrContradicted = errors.New("publish: this ring's key has signed another history than that of this ledger, so nothing more is signed")

// Witnessed says how far the log is witnessed.
type Witnessed struct {
	Size uint64    // how many events, 0 for none
	At   time.Time // the newest of the cosignatures
	By   []WitnessStatus
}

// WitnessStatus says what a witness has done.
type WitnessStatus struct {
	Name string // in the policy
	Err  error  // why it did not answer the last question with a cosignature
}

// witnessing is what a publisher knows of its witnesses.
type witnessing struct {
	client   *http.Client
	patience time.Duration

	asking sync.Mutex       // one round at a time; guards known
	known  map[string]int64 // the size that each witness has cosigned last, as far as is known

	// guarded by mu of the publisher:
	status    map[string]error
	cosigned  []byte          // the log's checkpoint with cosignatures, nil for none
	at        tlog.Checkpoint // of cosigned
	statement []byte          // the newest signed statement about that size
	when      int64           // the time of the first one, in milliseconds
	contrary  error           // why nothing is signed any more
}

// newWitnesses prepares asking the witnesses of a policy, which may be nil.
func newWitnesses() witnessing {
	return witnessing{patience: witnessTime, known: map[string]int64{}, status: map[string]error{}, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Witnessed says how far the log is witnessed by the policy. Without one, Size is 0 and By empty.
func (p *Publisher) Witnessed() (w Witnessed) {
	if p.c.Witnesses == nil {
		return w
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.c.Witnesses.Witnesses {
		w.By = append(w.By, WitnessStatus{known.Name, p.w.status[known.Name]})
	}
	if p.w.cosigned == nil {
		return w
	}
	w.Size = uint64(p.w.at.N)
	_, w.At = p.c.Witnesses.Witnessed(p.w.cosigned)
	return w
}

// Witnessed is [tlog.Policy.Witnessed] of what the source gives as cosigned.
func (w *Switch) Witnessed(policy *tlog.Policy) (size int64, at time.Time) {
	_, cosigned, _ := follow.CutCosigned(w.source().Cosigned())
	return policy.Witnessed(cosigned)
}

// logLag is how long a cosigned checkpoint is served while there are newer ones. Witnesses are asked
// once a minute. If they fail for longer, what has no cosignatures is served.
const logLag = 3 * time.Minute

// logCheckpoint is the checkpoint of the log at a position.
func logCheckpoint(c snap.Checkpoint) tlog.Checkpoint {
	return tlog.Checkpoint{Origin: c.Origin, Tree: xtlog.Tree{N: int64(c.Size), Hash: c.Root}}
}

// LogCheckpoint implements [Source].
func (p *Publisher) LogCheckpoint() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choose(p.c.Witnesses != nil, given{p.w.cosigned, uint64(p.w.at.N), p.w.when})
}

// choose gives the cosigned checkpoint or the newest one. A checkpoint without cosignatures is of
// no use to who follows a policy, so the cosigned one is preferred, if it is not old. While there
// are witnesses, one without cosignatures stays for [logLag], so that they can cosign one as large
// meanwhile. None is given that is smaller than one that was given before. The caller holds mu.
func (s *shown) choose(witnessed bool, cosigned given) []byte {
	now := s.last.Time
	fresh := cosigned.size == s.logged || now-cosigned.at <= logLag.Milliseconds()
	switch {
	case cosigned.checkpoint != nil && fresh && cosigned.size >= max(s.given.size, s.begun) && cosigned.size <= s.logged:
		s.given = cosigned
	case !witnessed, s.given.size == s.logged, now < s.given.at, now-s.given.at > logLag.Milliseconds():
		s.given = given{s.log, s.logged, now}
	}
	return s.given.checkpoint
}

// Cosigned implements [Source].
func (p *Publisher) Cosigned() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w.cosigned == nil {
		return nil
	}
	return follow.JoinCosigned(p.w.statement, p.w.cosigned)
}

// Contradicted says why nothing is signed any more, nil as long as there is no reason.
func (p *Publisher) Contradicted() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.contrary
}

// openWitnessed reads what an earlier process has had cosigned, and whether it has found a
// contradiction.
func (p *Publisher) openWitnessed(books Books) error {
	if _, err := os.Lstat(p.contradictionPath()); err == nil {
		p.mu.Lock()
		p.w.contrary = fmt.Errorf("%w; see %s", ErrContradicted, p.contradictionPath())
		p.mu.Unlock()
		return nil
	}
	if p.c.Witnesses == nil {
		return nil
	}
	kept, err := os.ReadFile(filepath.Join(p.c.Dir, witnessedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	statement, cosigned, ok := follow.CutCosigned(kept)
	at, err := tlog.OpenCheckpoint(cosigned, p.keyList())
	if !ok || err != nil {
		p.c.Log.Warn("publish: the last cosigned checkpoint cannot be used; witnesses are asked again", "err", err)
		return nil
	}
	if why := contradicts(at, p.key.Name(), books); why != "" {
		_ = p.contradict(cosigned, why, p.verifiers())
		return nil
	}
	p.mu.Lock()
	p.w.cosigned, p.w.statement, p.w.at = cosigned, statement, at
	if said, err := follow.Verify(statement, p.keyList()); err == nil {
		p.w.when = said.Time
	}
	p.mu.Unlock()
	return nil
}

func (p *Publisher) contradictionPath() string { return filepath.Join(p.c.Dir, contradictionName) }

// keyList are the keys that sign at present. The caller holds signing, or nothing runs yet.
func (p *Publisher) keyList() note.Verifiers {
	list, err := tlog.Keys(p.verifiers()...)
	if err != nil {
		panic(err) // they were made of keys
	}
	return list
}

func (p *Publisher) verifiers() []string {
	keys := []string{p.key.Verifier()}
	if p.next != nil {
		keys = append(keys, p.next.Verifier())
	}
	return keys
}

// keepAsking asks the witnesses every now and then, until ctx ends.
func (p *Publisher) keepAsking(ctx context.Context) {
	tick := time.NewTicker(p.c.AskEvery)
	defer tick.Stop()
	for {
		if err := p.ask(ctx); err != nil && ctx.Err() == nil {
			p.c.Log.Error("publish: the witnesses could not be asked", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// round is one round of questions: what is to be cosigned.
type round struct {
	statement []byte
	signed    []byte // the log's checkpoint, with the cosignatures that it has already
	stored    []byte // as it was cosigned before, nil if another size was
	at        tlog.Checkpoint
	when      int64 // of the statement
	books     Books
	keys      note.Verifiers
	verifiers []string // of the keys
}

// ask has the newest position cosigned by the witnesses that have not cosigned it. It returns when
// all have answered or had their time.
func (p *Publisher) ask(ctx context.Context) error {
	p.w.asking.Lock()
	defer p.w.asking.Unlock()
	r := p.nextRound()
	if r.at.N == 0 || r.signed == nil {
		return nil
	}
	var asked sync.WaitGroup
	var mu sync.Mutex // guards known and cosigned
	known, cosigned := maps.Clone(p.w.known), r.signed
	for _, w := range p.c.Witnesses.Witnesses {
		if _, err := note.Open(r.signed, note.VerifierList(w.Key)); err == nil || w.URL == "" {
			continue // it has cosigned this size, or cannot be asked
		}
		asked.Go(func() {
			within, cancel := context.WithTimeout(ctx, p.w.patience)
			defer cancel()
			lines, size, err := p.askOne(within, w, r, known[w.Name])
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				var more []byte
				if more, err = tlog.AddSignatures(cosigned, lines, note.VerifierList(w.Key)); err == nil {
					cosigned = more
				}
			}
			p.w.known[w.Name] = size
			p.answered(ctx, w.Name, err)
		})
	}
	asked.Wait()
	if by, err := p.c.Witnesses.Check(cosigned); err != nil || len(by) == 0 || bytes.Equal(cosigned, r.stored) {
		return nil // too few, or nothing new
	}
	if err := durable.Write(filepath.Join(p.c.Dir, witnessedName), follow.JoinCosigned(r.statement, cosigned), 0o600); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w.at != r.at {
		p.w.when = r.when
	}
	p.w.cosigned, p.w.at, p.w.statement = cosigned, r.at, r.statement
	if p.last.Size == uint64(r.at.N) {
		p.w.statement = p.signed
	}
	return nil
}

// nextRound takes the newest position, with the cosignatures that it has already.
func (p *Publisher) nextRound() (r round) {
	p.signing.Lock()
	defer p.signing.Unlock()
	p.mu.Lock()
	r.statement, r.books = p.signed, p.ledger
	r.at, r.when, r.signed = logCheckpoint(p.last), p.last.Time, p.log
	cosigned, same, contrary := p.w.cosigned, p.w.at == r.at, p.w.contrary
	p.mu.Unlock()
	if contrary != nil {
		return round{} // the log says so already
	}
	r.keys, r.verifiers = p.keyList(), p.verifiers()
	if !same {
		return r
	}
	// Other keys may sign the log than when it was cosigned.
	var witnesses []note.Verifier
	for _, w := range p.c.Witnesses.Witnesses {
		witnesses = append(witnesses, w.Key)
	}
	_, lines, _ := bytes.Cut(cosigned, []byte("\n\n"))
	r.stored = cosigned
	if signed, err := tlog.AddSignatures(r.signed, lines, note.VerifierList(witnesses...)); err == nil {
		r.signed = signed
	}
	return r
}

// answered notes what came of a question, and logs what is new.
func (p *Publisher) answered(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	before, known := p.w.status[name]
	p.w.status[name] = err
	p.mu.Unlock()
	switch {
	case err == nil && before != nil:
		p.c.Log.Info("publish: the witness cosigns again", "witness", name)
	case err != nil && (!known || before == nil || before.Error() != err.Error()):
		level := slog.LevelWarn
		if errors.Is(err, ErrContradicted) || errors.Is(err, errAhead) {
			level = slog.LevelError
		}
		p.c.Log.Log(ctx, level, "publish: the witness did not cosign; it is asked again", "witness", name, "err", err)
	}
}

// errAhead: a witness says that it has seen more of the log than there is, and cannot show it.
var errAhead = errors.New("the witness says that it has cosigned a log that this ledger does not continue")

// askOne asks one witness, again if it says that it has cosigned another size than the one that was
// assumed. It returns the signature lines, and the size that the witness has cosigned last.
func (p *Publisher) askOne(ctx context.Context, w tlog.PolicyWitness, r round, old int64) (lines []byte, size int64, err error) {
	for again := true; ; again = false {
		status, media, body, err := p.postCheckpoint(ctx, w, r, old)
		if err != nil {
			return nil, old, err
		}
		switch {
		case status == http.StatusOK:
			return body, r.at.N, nil
		case status == http.StatusConflict:
			theirs, ok := parseNumber(strings.TrimSuffix(string(body), "\n"))
			if !ok || !strings.HasPrefix(media, "text/x.tlog.size") {
				return nil, 0, errors.New("409 without the size that it has cosigned")
			}
			if int64(theirs) > r.at.N {
				return nil, 0, p.suspect(ctx, w, r)
			}
			if !again || int64(theirs) == old {
				return nil, int64(theirs), fmt.Errorf("409 again: it has cosigned %d events", theirs)
			}
			old = int64(theirs)
		case status == http.StatusUnprocessableEntity:
			return nil, 0, p.suspect(ctx, w, r)
		default:
			return nil, old, fmt.Errorf("status %d", status)
		}
	}
}

// postCheckpoint asks a witness to cosign, which has cosigned old events before.
func (p *Publisher) postCheckpoint(ctx context.Context, w tlog.PolicyWitness, r round, old int64) (status int, media string, answer []byte, err error) {
	body := []byte("old " + strconv.FormatInt(old, 10) + "\n")
	if 0 < old && old < r.at.N {
		proof, err := xtlog.ProveTree(r.at.N, old, r.books.HashReader())
		if err != nil {
			return 0, "", nil, err
		}
		for _, hash := range proof {
			body = append(base64.StdEncoding.AppendEncode(body, hash[:]), '\n')
		}
	}
	body = append(append(body, '\n'), r.signed...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	return p.exchange(req)
}

// exchange sends a request to a witness.
func (p *Publisher) exchange(req *http.Request) (status int, media string, body []byte, err error) {
	res, err := p.w.client.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, witnessAnswer+1))
	if err == nil && len(body) > witnessAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", witnessAnswer)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), body, err
}

// suspect asks a witness for the checkpoint that it has cosigned, as it says that this log does not
// continue that one. If this ring's key has signed it, nothing is signed any more.
func (p *Publisher) suspect(ctx context.Context, w tlog.PolicyWitness, r round) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/"+witness.OriginHash(r.at.Origin)+"/checkpoint", nil)
	if err != nil {
		return err
	}
	status, _, theirs, err := p.exchange(req)
	if err != nil {
		return fmt.Errorf("%w; it does not show that checkpoint: %w", errAhead, err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("%w; it does not show that checkpoint: status %d", errAhead, status)
	}
	at, err := tlog.OpenCheckpoint(theirs, r.keys)
	if err != nil {
		return fmt.Errorf("%w; the checkpoint that it shows is not signed with this ring's key: %w", errAhead, err)
	}
	// A node that no longer leads lacks the events of the next leader. This fails for it.
	if err := p.fence(ctx); err != nil {
		return err
	}
	why := contradicts(at, r.at.Origin, r.books)
	if why == "" {
		return errors.New("it is ahead of the question; it is asked again")
	}
	return p.contradict(theirs, why, r.verifiers)
}

// fence fails if this process may not sign any more, because another one does.
func (p *Publisher) fence(ctx context.Context) error {
	p.signing.Lock()
	defer p.signing.Unlock()
	until := max(p.until, p.c.Now().UnixMilli()) + 1
	if err := p.c.Until.MoveUntil(ctx, until); err != nil {
		return err
	}
	p.until = until
	return nil
}

// contradicts says how a checkpoint that this ring's key has signed contradicts its ledger, "" if
// it does not.
func contradicts(at tlog.Checkpoint, origin string, books Books) string {
	size := int64(books.Size())
	switch {
	case at.Origin != origin:
		return ""
	case at.N > size:
		return fmt.Sprintf("it signed %d events, and the ledger has %d", at.N, size)
	case at.N == 0:
		return ""
	}
	root, err := xtlog.TreeHash(at.N, books.HashReader())
	if err != nil || root == at.Hash {
		return ""
	}
	return fmt.Sprintf("it signed another root of %d events", at.N)
}

// contradict ends signing, also for later processes, and keeps the proof.
func (p *Publisher) contradict(theirs []byte, why string, verifiers []string) error {
	p.mu.Lock()
	evidence := slices.Concat(theirs, []byte("\n"), p.signed)
	if books := p.books; books != nil {
		both := tlog.Continues(p.signed, theirs, verifiers, func(xtlog.Tree) xtlog.HashReader { return books.HashReader() })
		if c, ok := errors.AsType[*tlog.Contradiction](both); ok {
			evidence = c.Text() // otherwise this ledger lacks events that were signed, and can prove nothing
		}
	}
	p.w.contrary = fmt.Errorf("%w: %s; see %s", ErrContradicted, why, p.contradictionPath())
	err := p.w.contrary
	p.mu.Unlock()
	if failed := durable.Write(p.contradictionPath(), evidence, 0o600); failed != nil {
		p.c.Log.Error("publish: the contradicting checkpoint cannot be kept", "err", failed, "checkpoint", string(theirs))
	}
	p.c.Log.Error("publish: stopped signing", "err", err)
	return err
}
