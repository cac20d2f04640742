package tlog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	CheckpointPath = "/log/checkpoint"
	TileHeight     = 8
	TileWidth      = 256
	MaxProof       = 64 << 10
)

type Checkpoint struct {
	Origin string
	tlog.Tree
}

func OpenCheckpoint(signed []byte, keys note.Verifiers) (c Checkpoint, err error) {
	n, err := note.Open(signed, keys)
	if err != nil {
		return c, err
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 {
		return c, errors.New("tlog: malformed checkpoint")
	}
	c.Origin = lines[0]
	c.N, err = strconv.ParseInt(lines[1], 10, 64)
	if err == nil {
		c.Hash, err = tlog.ParseHash(lines[2])
	}
	if err == nil && n.Sigs[0].Name != c.Origin {
		err = errors.New("tlog: checkpoint of another origin")
	}
	return c, err
}

func index(n int64) string {
	s := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		s = fmt.Sprintf("x%03d/%s", n%1000, s)
	}
	return s
}

func partial(w int) string {
	if w == TileWidth {
		return ""
	}
	return ".p/" + strconv.Itoa(w)
}

func TilePath(t tlog.Tile) string {
	return "/log/tile/" + strconv.Itoa(t.L) + "/" + index(t.N) + partial(t.W)
}
func EntriesPath(n int64, w int) string { return "/log/tile/entries/" + index(n) + partial(w) }
func TextsPath(n int64, w int) string   { return "/log/texts/" + index(n) + partial(w) }

func Entries(b []byte) (all [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return nil, errors.New("tlog: malformed entries")
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		all, b = append(all, b[2:n]), b[n:]
	}
	return all, nil
}

type Proof struct {
	Extra      []byte
	Index      int64
	Hashes     tlog.RecordProof
	Checkpoint []byte
}

func (p *Proof) Text() []byte {
	s := "c2sp.org/tlog-proof@v1\nextra " + base64.StdEncoding.EncodeToString(p.Extra) + "\nindex " + strconv.FormatInt(p.Index, 10) + "\n"
	for _, h := range p.Hashes {
		s += h.String() + "\n"
	}
	return []byte(s + "\n" + string(p.Checkpoint))
}

func ParseProof(b []byte) (*Proof, error) {
	head, rest, ok := strings.Cut(string(b), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 3 {
		return nil, errors.New("tlog: malformed proof")
	}
	p := &Proof{Checkpoint: []byte(rest)}
	var err error
	p.Extra, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err == nil {
		p.Index, err = strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	}
	for _, l := range lines[3:] {
		h, e := tlog.ParseHash(l)
		err = errors.Join(err, e)
		p.Hashes = append(p.Hashes, h)
	}
	if err == nil && string(p.Text()) != string(b) {
		err = errors.New("tlog: spelling")
	}
	return p, err
}

type Policy struct{}
type Witness struct {
	Name string
	Time time.Time
}

func ParsePolicy([]byte) (*Policy, error)         { return &Policy{}, nil }
func (p *Policy) Logs() []string                  { return nil }
func (p *Policy) Check([]byte) ([]Witness, error) { return nil, nil }
func Verifiers(words ...string) (note.Verifiers, error) {
	var keys []note.Verifier
	for _, w := range words {
		k, err := note.NewVerifier(w)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return note.VerifierList(keys...), nil
}
