package core_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/flat"
	"webring/core/snap"
)

// means are ways in which hosts may run the steps of a restore.
var means = map[string]core.Means{
	"in order": {},
	"in reverse": {Beside: func(steps ...func()) {
		for _, step := range slices.Backward(steps) {
			step()
		}
	}},
	"at a time": {Beside: func(steps ...func()) {
		var all sync.WaitGroup
		for _, step := range steps {
			all.Go(step)
		}
		all.Wait()
	}},
}

// A ring of more rows than are restored together, with members that share hosts,
// lists and buckets, and some that have left, answers like the one that its snapshot
// was taken of, however the steps are run.
func TestManyRowsAreRestoredByAnyMeans(t *testing.T) {
	const seed, members = 47, 17_000
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	r := coretest.NewRing(t, func(e *core.Rules) { e.Grace, e.Decay = 30, 40_000 })
	for i := range members {
		slug := fmt.Sprintf("member-%d", i)
		r.Join(slug, fmt.Sprintf("https://host-%d.example/%d", random.IntN(members), i), func(e *core.Joined, texts *core.Texts) {
			e.Kind, e.Category = core.Kind(1+random.IntN(3)), fmt.Sprintf("category-%d", random.IntN(40))
			if e.Bid = random.Int64N(300); random.IntN(9) == 0 {
				texts.Description.Value = "Größe und Maß"
			}
		})
		if random.IntN(50) == 0 {
			r.Remove(slug, random.IntN(2) == 0)
		} else if random.IntN(20) == 0 {
			r.Hide(slug)
		}
	}
	b := snap.Append(nil, r.State)
	for how, with := range means {
		restored, err := snap.Open(members, random.Uint64(), b, with)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		sameAs(t, how, r, restored)
	}
}

// sameAs checks that a restored state has the rows of a ring, and finds them.
func sameAs(t *testing.T, how string, r *coretest.Ring, restored *core.State) {
	t.Helper()
	restored.Advance(r.Clock())
	if !slices.Equal(snap.Append(nil, r.State), snap.Append(nil, restored)) || restored.Digest() != r.Digest() ||
		restored.NextChange() != r.NextChange() || restored.ChangedAt() != r.ChangedAt() {
		t.Errorf("%s: the restored state is another", how)
	}
	sound(t, restored)
}

// An index in which far more rows share a bucket than is likely gets the room for
// them while others are filled.
func TestRowsThatShareABucketAreRestored(t *testing.T) {
	const secret, members = 5, 500
	seed := flat.NewSeed(secret)
	r := coretest.NewRing(t)
	for i, n := 0, 0; n < members; i++ {
		slug := fmt.Sprintf("member-%d", i)
		if n < members*2/3 && seed.Hash(slug)&63 != 5 {
			continue
		}
		r.Join(slug, fmt.Sprintf("https://%s.example/", slug))
		n++
	}
	b := snap.Append(nil, r.State)
	for how, with := range means {
		restored, err := snap.Open(members, secret, b, with)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		sameAs(t, how, r, restored)
	}
}

// Rows that cannot stand in one ring are refused as that, wherever they stand.
func TestRowsThatExcludeOneAnotherAreRefused(t *testing.T) {
	const members = 1500 // more than a restorer takes in one step
	r := coretest.NewRing(t)
	for i := range members {
		r.Join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://%d.example/", i))
	}
	var rows []byte
	for o := range core.Ordinal(members) {
		row := r.AppendRow(nil, o)
		rows = append(append(rows, 0, 0, 0, byte(len(row))), row...)
	}
	with := func(slug, url string) []byte {
		other := coretest.NewRing(t)
		other.Join(slug, url)
		row := other.AppendRow(nil, 0)
		return append(append(slices.Clone(rows), 0, 0, 0, byte(len(row))), row...)
	}
	// A row ends in whether its member is removed or hidden, and redacted, and in these.
	const begin, claimed, sleeps, since, verified, proof, changed = 8, 1, 1, 8, 8, 1, 8
	const behind = begin + claimed + sleeps + since + verified + proof + changed
	ending := func(rows []byte, standing, redacted byte) []byte {
		rows = slices.Clone(rows)
		rows[len(rows)-behind-2], rows[len(rows)-behind-1] = standing, redacted
		return rows
	}
	// status writes a byte at so many bytes before the end.
	status := func(at int, b byte) []byte {
		rows := with("other", "https://other.example/")
		rows[len(rows)-at] = b
		return rows
	}
	for name, c := range map[string]struct {
		rows []byte
		want error
	}{
		"hidden":                   {ending(with("other", "https://other.example/"), 2, 0), nil},
		"removed":                  {ending(with("other", "http://www.17.example/index.html"), 1, 0), nil},
		"URL of a hidden member":   {ending(with("other", "http://www.17.example/index.html"), 2, 0), core.ErrURLTaken},
		"departed":                 {ending(with("other", "https://other.example/"), 3, 0), nil},
		"URL of a departed member": {ending(with("other", "http://www.17.example/index.html"), 3, 0), core.ErrURLTaken},
		"departed and redacted":    {ending(with("other", "https://other.example/"), 3, 1), core.ErrRow},
		"neither hidden nor shown": {ending(with("other", "https://other.example/"), 4, 0), core.ErrRow},
		"hidden and redacted":      {ending(with("other", "https://other.example/"), 2, 1), core.ErrRow},
		"asleep":                   {status(since+verified+proof+changed+sleeps, 1), nil},
		"half asleep":              {status(since+verified+proof+changed+sleeps, 2), core.ErrRow},
		"asleep for too long":      {status(since+verified+proof+changed, 1), core.ErrRow},
		"claimed by nobody":        {status(since+verified+proof+changed+sleeps+claimed, 1), core.ErrRow},
		"verified by a link":       {status(proof+changed, 3), nil},
		"verified by no proof":     {status(proof+changed+1, 1), core.ErrRow},
		"verified by another":      {status(proof+changed, 4), core.ErrRow},
		"changed":                  {status(1, 1), nil},
		"changed too late":         {status(changed, 1), core.ErrRow},
		"fits":                     {with("other", "https://other.example/"), nil},
		"slug":                     {with("member-17", "https://other.example/"), core.ErrSlugTaken},
		"URL":                      {with("other", "http://www.17.example/index.html"), core.ErrURLTaken},
		"malformed":                {append(slices.Clone(rows), make([]byte, 60)...), core.ErrRow},
		"too short":                {append(slices.Clone(rows), 0, 0, 0, 1, 1), core.ErrRow},
		"empty":                    {append(make([]byte, 4*members), rows...), core.ErrRow},
		"cut":                      {with("other", "https://other.example/")[:len(rows)+9], core.ErrRows},
		"too few":                  {rows, core.ErrRows},
		"too many":                 {append(with("other", "https://other.example/"), 0), core.ErrRows},
	} {
		for how, with := range means {
			for _, piece := range []int{len(c.rows), 97} {
				if err := restore(members+1, r.Base(), members+1, c.rows, piece, with); !errors.Is(err, c.want) {
					t.Errorf("%s, %s, %d bytes at a time: %v, want %v", name, how, piece, err, c.want)
				}
			}
		}
	}
	if err := restore(members-1, r.Base(), members, rows, len(rows), core.Means{}); !errors.Is(err, core.ErrCapacity) {
		t.Errorf("beyond the capacity: %v", err)
	}
}

// restore restores rows in pieces.
func restore(capacity int, b core.Base, count uint32, rows []byte, piece int, means core.Means) error {
	r, err := core.NewRestorer(capacity, 1, b, count, len(rows), means)
	if err != nil {
		return err
	}
	for next := range slices.Chunk(rows, piece) {
		if err := r.Add(next); err != nil {
			return err
		}
	}
	_, err = r.State()
	return err
}

// What a base says of its rows is compared with their size before room is made, and with each
// piece as it comes.
func TestRowsAreBoundedByWhatWasSaid(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("first", "https://first.example/", func(_ *core.Joined, texts *core.Texts) {
		texts.Description.Value = strings.Repeat("x", core.MaxDescription)
	})
	row := r.AppendRow([]byte{0, 0, 0, 0}, 0)
	binary.BigEndian.PutUint32(row, uint32(len(row)-4))
	begin := func(count uint32, size int) *core.Restorer {
		t.Helper()
		to, err := core.NewRestorer(100, 1, r.Base(), count, size, core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	if _, err := core.NewRestorer(100, 1, r.Base(), 100, 100*60, core.Means{}); err != core.ErrRows {
		t.Errorf("more rows than there are bytes for: %v", err)
	}
	if _, err := core.NewRestorer(100, 1, core.Base{}, 1, len(row), core.Means{}); err != core.ErrNotOpened {
		t.Errorf("rows of an empty ledger: %v", err)
	}
	if err := begin(1, len(row)-1).Add(row); err != core.ErrRows {
		t.Errorf("a byte more: %v", err)
	}
	// As many rows as could be, of which the first leave no room for the others.
	const rows = 90
	size := rows * len(row)
	most := size / 66
	many, err := core.NewRestorer(most, 1, r.Base(), uint32(most), size, core.Means{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		// Each has its own slug and URL.
		copy(row[4+2:], fmt.Sprintf("m%04d", i))
		copy(row[bytes.Index(row, []byte("https://"))+8:], fmt.Sprintf("m%04d", i))
		if err = many.Add(row); err != nil {
			break
		}
	}
	if err == nil {
		_, err = many.State()
	}
	if err != core.ErrRows {
		t.Errorf("rows that take what others need: %v", err)
	}
	long := begin(1, 1<<20)
	if err := long.Add([]byte{0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := long.Add([]byte{0x40, 1}); err != nil {
		t.Errorf("the length of a row: %v", err)
	}
	if err := begin(1, 1<<20).Add([]byte{0, 1, 0, 0}); !errors.Is(err, core.ErrRow) {
		t.Errorf("a row longer than any: %v", err)
	}
}

// A snapshot with more categories than events could have led to is no snapshot.
func TestCategoriesOfRestoredRowsAreBounded(t *testing.T) {
	const most = 4 * core.MaxCategories
	r := coretest.NewRing(t)
	for i := range most + 1 {
		r.Join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://host-%d.example/", i), func(e *core.Joined, _ *core.Texts) {
			e.Category = fmt.Sprintf("category-%04d", i%most)
		})
	}
	b := snap.Append(nil, r.State)
	if _, err := snap.Open(most+1, 1, b, core.Means{}); err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(b, []byte("category-0000"))
	copy(b[last:], "category-more")
	for how, with := range means {
		if _, err := snap.Open(most+1, 1, b, with); !errors.Is(err, core.ErrCategories) {
			t.Errorf("%s: %v", how, err)
		}
	}
}
