package api

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

var straightPaths = []string{"/next?from=", "/prev?from=", "/api/ring/next?from=", "/api/ring/prev?from=", "/api/widget?from=", "/api/ring/"}

// answered is everything that a host sees of an answer.
func answered(r *Response) string {
	return fmt.Sprintf("%d %d %d %d %d..%d %t %q %q %q %s", r.Status, r.Media, r.Validity, r.Seq, r.Since, r.Until, r.Unknown, r.Location, r.Next, r.Prev, r.Body)
}

// agree has the general way answer what Serve did, and says whether the straight
// one would have.
func agree(t *testing.T, st *core.State, target string, random uint64, used *Response) (straightly bool) {
	t.Helper()
	Serve(st, []byte(target), random, used)
	want := &Response{Seq: st.Seq()}
	general(st, []byte(target), random, 0, want)
	if got := answered(used); got != answered(want) {
		t.Fatalf("%q:\n got %s\nwant %s", target, got, answered(want))
	}
	_, straightly = straight(st, []byte(target), new(Response))
	return straightly
}

// Whatever the history and the target, the straight way gives what the general
// one does, which is the definition.
func TestTheStraightWayLeadsWhereTheGeneralOneDoes(t *testing.T) {
	const histories, length = 50, 70
	used, straightly, otherwise := new(Response), 0, 0
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 2))
		st := core.NewState(24, seed)
		for _, step := range coretest.Generate(seed, length) {
			if step.Event == nil {
				st.Advance(step.Now)
			} else if st.Apply(step.EventBytes, step.TextBytes) != nil {
				continue
			}
			if st.Rules() == nil || random.IntN(8) > 0 {
				continue
			}
			st.Advance(0)
			for _, target := range hostile(st, random) {
				if agree(t, st, target, random.Uint64(), used) {
					straightly++
				} else {
					otherwise++
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if straightly < 3000 || otherwise < 3000 {
		t.Errorf("only %d targets were answered straight, and %d otherwise", straightly, otherwise)
	}
}

// hostile gives targets on the straight paths, and near them: for all who ever
// joined, for others, and damaged.
func hostile(st *core.State, random *rand.Rand) (targets []string) {
	slugs := []string{"", "nobody", "next", "random", "a.com", strings.Repeat("x", core.MaxSlug), strings.Repeat("x", 400)}
	for o := range core.Ordinal(st.Rows()) {
		slugs = append(slugs, st.Member(o).Slug)
	}
	for _, path := range straightPaths {
		for _, slug := range slugs {
			target := path + slug
			targets = append(targets, target)
			switch at := random.IntN(len(target)); random.IntN(9) {
			case 0:
				target += "&kind=agent"
			case 1:
				target += "?&#+%/ \x00"[random.IntN(8):]
			case 2:
				target = target[:at]
			case 3:
				target = target[:at] + fmt.Sprintf("%%%02x", target[at]) + target[at+1:]
			case 4:
				target = target[:at] + string([]byte{byte(random.IntN(256))}) + target[at+1:]
			case 5:
				target = strings.Replace(target, "from", "kind=mcp&from", 1)
			case 6:
				target = target[:at] + strings.ToUpper(target[at:])
			case 7:
				target = strings.Replace(target, "?", "?from="+slugs[random.IntN(len(slugs))]+"&", 1)
			case 8:
				target = target[:at] + string([]byte{target[at] ^ 1<<random.IntN(8)}) + target[at+1:]
			}
			targets = append(targets, target)
		}
	}
	return targets
}

// A ledger may hold members that are called like endpoints.
func TestEndpointsComeBeforeMembersOfTheirNames(t *testing.T) {
	r := coretest.NewRing(t)
	for _, slug := range []string{"alpha", "next", "prev", "random", "nexts"} {
		r.Join(slug, "https://"+slug+".example/")
	}
	for _, path := range straightPaths {
		for _, slug := range []string{"next", "prev", "random"} {
			if got, want := agree(t, r.State, path+slug, 7, new(Response)), path != "/api/ring/"; got != want {
				t.Errorf("%s%s is answered straight: %t", path, slug, got)
			}
		}
		if !agree(t, r.State, path+"nexts", 7, new(Response)) {
			t.Errorf("%snexts is not answered straight", path)
		}
	}
}
