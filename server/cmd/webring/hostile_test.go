package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
	"webring/edge/tlog"
	"webring/server/devchain"
)

// fromOrigin is the answer to all reads that no follower asks for.
var fromOrigin = string(api.AppendProblem(nil, "https://ring.test", api.Internal, "The origin answers this.", nil))

// hostile is an origin in the test's process. It has its key, so it can sign and send
// anything.
type hostile struct {
	server *httptest.Server
	t      *testing.T
	base   string
	key    string
	signer note.Signer

	mu      sync.Mutex
	state   *core.State
	tree    snap.Tree
	records []snap.Record
	hashes  []xtlog.Hash
	at      snap.Checkpoint
	signed  []byte
	changed chan struct{}
	files   map[string][]byte // by path
	asked   map[string]int
	bend    func(path string, b []byte) []byte
	post    http.HandlerFunc
}

func newSigner(t *testing.T, name string) (signer note.Signer, key string) {
	t.Helper()
	secret, key, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = note.NewSigner(secret); err != nil {
		t.Fatal(err)
	}
	return signer, key
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := openHostile(t)
	h.add(&core.Rules{Stamp: time.Now().UnixMilli(), Name: "Ring", BaseURL: "https://ring.test", Fee: 100, MinBid: 100,
		Grace: 1000, Decay: 1000, Scorer: "fixed", RequiredScore: 40}, nil)
	return h
}

// openHostile is newHostile without an event.
func openHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{t: t, state: core.NewState(10_000, 1), changed: make(chan struct{}), files: map[string][]byte{}, asked: map[string]int{}}
	h.signer, h.key = newSigner(t, "ring.test")
	s := httptest.NewServer(h)
	h.base, h.server = s.URL, s
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return h
}

func (h *hostile) add(e core.Event, texts *core.Texts) {
	h.t.Helper()
	if err := h.apply(coretest.NewStep(e, texts)); err != nil {
		h.t.Fatal(err)
	}
}

// apply adds the event of a step, unless the ring refuses it.
func (h *hostile) apply(s coretest.Step) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.state.Apply(s.EventBytes, s.TextBytes); err != nil {
		return err
	}
	hashes, err := xtlog.StoredHashes(int64(h.tree.Size()), s.EventBytes, h)
	if err != nil {
		return err
	}
	h.hashes = append(h.hashes, hashes...)
	h.tree.Add(s.EventBytes)
	h.records = append(h.records, snap.Record{Event: s.EventBytes, Texts: s.TextBytes})
	return nil
}

func (h *hostile) join(slugs ...string) {
	h.t.Helper()
	for _, slug := range slugs {
		texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".test/"}}
		rand.Read(texts.URL.Salt[:])
		h.add(&core.Joined{Stamp: time.Now().UnixMilli(), Slug: slug, Kind: core.Agent, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: 100}, texts)
	}
}

// present is the checkpoint of what there is, bent.
func (h *hostile) present(bend ...func(*snap.Checkpoint)) snap.Checkpoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.at
	c.Origin, c.Size, c.Root, c.State = "ring.test", h.tree.Size(), h.tree.Root(), h.state.Digest()
	c.Time = max(time.Now().UnixMilli(), h.at.Time+1)
	for _, b := range bend {
		b(&c)
	}
	return c
}

func sign(t *testing.T, s note.Signer, c snap.Checkpoint) []byte {
	t.Helper()
	signed, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// sends makes bytes the newest checkpoint.
func (h *hostile) sends(signed []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signed = signed
	close(h.changed)
	h.changed = make(chan struct{})
}

// sign sends a checkpoint of what there is, bent.
func (h *hostile) sign(bend ...func(*snap.Checkpoint)) []byte {
	h.t.Helper()
	c := h.present(bend...)
	signed := sign(h.t, h.signer, c)
	h.mu.Lock()
	h.at = c
	h.mu.Unlock()
	h.sends(signed)
	return signed
}

// snapshot makes a snapshot that checkpoints name from now on.
func (h *hostile) snapshot() {
	h.t.Helper()
	h.offer(h.tree.Append(snap.Append(nil, h.state)))
}

// offer makes whatever the snapshot that checkpoints name from now on.
func (h *hostile) offer(plain []byte) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	// As one that earlier origins have made, the file does not say how long its content is.
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		h.t.Fatal(err)
	}
	file := packed.Bytes()
	digest := sha256.Sum256(file)
	h.files["/sync/snapshot/"+hex.EncodeToString(digest[:])] = file
	h.at.Snapshot = snap.Snapshot{Digest: digest, Bytes: int64(len(file)), Size: h.tree.Size()}
}

func (h *hostile) bent(bend func(path string, b []byte) []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bend = bend
}

func (h *hostile) questions(uri string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[uri]
}

// ServeHTTP answers as an origin does, unless it is bent.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		h.post(w, r)
		return
	}
	h.mu.Lock()
	h.asked[r.URL.RequestURI()]++
	b, bend := h.files[r.URL.Path], h.bend
	switch r.URL.Path {
	case "/sync/checkpoint":
		if r.Header.Get("Accept") == "text/event-stream" {
			h.mu.Unlock()
			h.stream(w, r)
			return
		}
		b = h.signed
	default:
		if b == nil {
			b = h.tile(r.URL.Path)
		}
	}
	h.mu.Unlock()
	if bend != nil {
		b = bend(r.URL.Path, bytes.Clone(b))
	}
	if b == nil {
		// Nodes that pass reads on get this.
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, fromOrigin)
		return
	}
	w.Write(b)
}

// ReadHashes implements [xtlog.HashReader].
func (h *hostile) ReadHashes(indexes []int64) (hashes []xtlog.Hash, err error) {
	for _, i := range indexes {
		if i >= int64(len(h.hashes)) {
			return nil, errors.New("not yet")
		}
		hashes = append(hashes, h.hashes[i])
	}
	return hashes, nil
}

// tile is a tile or a bundle of the log, nil if it has none there.
func (h *hostile) tile(path string) (b []byte) {
	t, texts, ok := tlog.ParsePath(path)
	if !ok {
		return nil
	}
	if t.L >= 0 {
		b, _ = xtlog.ReadTileData(t, h)
		return b
	}
	first := t.N * tlog.TileWidth
	if first+int64(t.W) > int64(len(h.records)) {
		return nil
	}
	for _, r := range h.records[first:][:t.W] {
		if texts {
			b = tlog.AppendEntry(b, r.Texts)
		} else {
			b = tlog.AppendEntry(b, r.Event)
		}
	}
	return b
}

func (h *hostile) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for sent := "-"; ; {
		h.mu.Lock()
		signed, changed := string(h.signed), h.changed
		h.mu.Unlock()
		if signed != sent {
			sent = signed
			fmt.Fprintf(w, "id: x\ndata: %s\n\n", strings.ReplaceAll(strings.TrimSuffix(signed, "\n"), "\n", "\ndata: "))
			w.(http.Flusher).Flush()
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// edge starts an edge that follows at a URL, and waits for it unless it is not
// to be ready at first.
func (h *hostile) edge(at string, ready bool, args ...string) *origin {
	h.t.Helper()
	listen := devchain.FreeAddress()
	e := &origin{t: h.t, data: folder(h.t), base: "http://" + listen}
	e.args = append([]string{"edge", "--listen", listen, "--origin", at, "--origin-key", h.key, "--rate-limit", "0", "--drain", "0"}, args...)
	if ready {
		e.launch()
	} else {
		e.boot()
	}
	h.t.Cleanup(e.kill)
	return e
}

// reached waits until an edge shows what there is.
func (h *hostile) reached(e *origin) {
	h.t.Helper()
	want := fmt.Sprint(h.present().Size)
	eventually(h.t, "position "+want+" at the edge", time.Minute, func() bool {
		r, err := e.try(http.MethodGet, "/api", nil)
		return err == nil && r.Header.Get("Webring-Seq") == want
	})
}

// says waits for words in what a process logs from some length of its log on.
func (o *origin) says(from int, words string) {
	o.t.Helper()
	for late := time.Now().Add(60 * time.Second); !strings.Contains(o.log.String()[from:], words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			o.t.Fatalf("the log does not say %q:\n%s", words, o.log.String()[from:])
		}
	}
}

// reading has an edge read from in all ways until the function that it gives is
// called, which says how many reads there were. The test fails if one did, or if an
// answer went back to an earlier position or to standings of an earlier second.
func (o *origin) reading(targets ...string) (stop func() int64) {
	ctx, cancel := context.WithCancel(o.t.Context())
	var reads atomic.Int64
	var readers sync.WaitGroup
	for _, target := range targets {
		readers.Go(func() {
			var seq, since int
			for ctx.Err() == nil {
				r, err := o.try(http.MethodGet, target, nil)
				if err != nil || r.Status != http.StatusOK && r.Status != http.StatusFound {
					o.t.Errorf("GET %s: %d %v %s", target, r.Status, err, r.Body)
					return
				}
				position := r.Header.Get("Webring-Seq")
				atSeq, atSince := number(position), 0
				// What has standings has a tag of build, position and second.
				if tag := strings.Split(strings.Trim(r.Header.Get("ETag"), `"`), "-"); len(tag) == 3 && tag[1] == position {
					atSince = number(tag[2])
				}
				if atSeq < seq || atSince < since {
					o.t.Errorf("GET %s: from %d since %d back to %d since %d", target, seq, since, atSeq, atSince)
					return
				}
				seq, since = atSeq, atSince
				reads.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() int64 {
		cancel()
		readers.Wait()
		return reads.Load()
	}
}

// number is 0 for what is none.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
