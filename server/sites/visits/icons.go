package visits

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"strings"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/sites/icon"
)

const (
	iconPrefix = "i"
	iconPath   = "/favicon.ico"
	iconTypes  = "image/png, image/webp, image/x-icon, image/gif, image/jpeg;q=0.9, */*;q=0.5"
	// maxIcon is how much of an icon is read, in bytes.
	maxIcon = 64 << 10
	// iconsAge is how long an icon is kept before the site is asked for it again.
	iconsAge = 7 * 24 * time.Hour
	// iconAge and noIconAge are for how long readers may keep an icon, and that there is none.
	iconAge, noIconAge = time.Hour, 10 * time.Minute
)

// iconRow is the row of the icon of a member.
type iconRow struct {
	about uint64 // checksum of what was visited
	at    int64  // second of the visit
	from  uint64 // checksum of the icon's address
	png   []byte // empty: there is none
}

func readIcon(view *ledger.View, slug string) (r iconRow, err error) {
	value, err := view.Value(ledger.Visits, iconPrefix+slug)
	var fields [3]uint64
	for i := range fields {
		x, size := binary.Uvarint(value)
		if size <= 0 {
			return iconRow{}, err // as without a row
		}
		fields[i], value = x, value[size:]
	}
	return iconRow{fields[0], int64(fields[1]), fields[2], value}, err
}

func (r *iconRow) encode() (value []byte) {
	if r.at == 0 {
		return nil
	}
	for _, x := range [...]uint64{r.about, uint64(r.at), r.from} {
		value = binary.AppendUvarint(value, x)
	}
	return append(value, r.png...)
}

// lookAtIcon fetches the icon of a site that has answered, if it was not looked at for a week or has
// another address now. What may be different tomorrow is left for then.
func (v *Visitor) lookAtIcon(ctx context.Context, s *sight) {
	at := s.iconAt
	if at == "" {
		at = s.below(iconPath)
	}
	sum := fnv.New32a()
	sum.Write([]byte(at))
	r := iconRow{about: aboutOf(s.target), at: v.cfg.Now().Unix(), from: uint64(sum.Sum32())}
	var last iconRow
	var err error
	v.cfg.Ledger.View(func(view *ledger.View) { last, err = readIcon(view, s.slug) })
	age := r.at - last.at
	if err != nil || last.about == r.about && last.from == r.from && age >= 0 && age < int64(iconsAge/time.Second) {
		return
	}
	ask := s.request(at, iconTypes)
	ask.MaxBody = maxIcon
	a, err := v.cfg.Fetch.Get(ctx, ask)
	if err != nil || a.Status >= 500 || a.Status == http.StatusTooManyRequests {
		return
	}
	if a.Status/100 == 2 && !a.Truncated {
		r.png, _ = icon.Small(a.Body) // without one, as if there were none
	}
	s.icon = &r
}

// Icon answers a GET for the icon of the member at a path: with [icon.None] for a member without one.
func Icon(view *ledger.View, path string) api.Document {
	st := view.State()
	slug, _, _ := strings.Cut(strings.TrimPrefix(path, "/members/"), "/")
	base := ""
	if rules := st.Rules(); rules != nil {
		base = rules.BaseURL
	}
	o, known := st.BySlug([]byte(slug))
	m, there := target{}, false
	if known {
		m, there = targetOf(st, o)
	}
	if !there {
		return api.Refusal(base, api.UnknownMember, "No member of the ring has this slug.", "")
	}
	r, err := readIcon(view, slug)
	if err != nil {
		return api.Refusal(base, api.Internal, "The icon cannot be read.", "")
	}
	if len(r.png) == 0 || r.about != aboutOf(m) {
		return api.Document{Status: 200, Media: icon.Media, Body: icon.None, MaxAge: int(noIconAge / time.Second)}
	}
	return api.Document{Status: 200, Media: icon.Media, Body: bytes.Clone(r.png), MaxAge: int(iconAge / time.Second), Seq: st.Seq()}
}
