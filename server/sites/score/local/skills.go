package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"

	"webring/server/sites/fetch"
)

// skill is what is known of the agent skills of a site.
type skill struct {
	index  *document
	url    string // of the skill that was looked at, "" when there was none
	answer answer // without its body
	same   bool   // it is what the index says, by its digest
}

// findSkill fetches the first skill of the index that is on this site.
//
// Document: Agent Skills Discovery 0.2.0.
func (s *site) findSkill(ctx context.Context, index *document) *skill {
	k := &skill{index: index}
	for _, l := range index.leads {
		ref, err := url.Parse(l.url)
		if err != nil {
			continue
		}
		own := s.own(k.index.answer.URL.ResolveReference(ref).String())
		if own == "" {
			continue
		}
		k.url = own
		k.answer = s.get(ctx, fetch.Request{URL: own, Accept: "text/markdown, */*;q=0.5"})
		if k.answer.ok() && !k.answer.Truncated {
			s.read(ctx, func() {
				sum := sha256.Sum256(k.answer.Body)
				k.same = l.digest == "sha256:"+hex.EncodeToString(sum[:])
			})
		}
		k.answer.drop()
		break
	}
	return k
}

func (s *site) checkSkill() finding {
	k := s.skill
	switch {
	case k.url == "" && len(k.index.leads) == 0:
		return fail("No index leads to a skill.")
	case k.url == "":
		return fail("The index names skills on other sites only, which are not fetched.")
	case !k.answer.ok():
		return fail("%s The first skill of the index was asked for.", noAnswer(k.answer))
	case !k.same:
		return fail("The first skill is there, but is not what the digest in the index says, or too long.")
	}
	return pass("The first skill is there, and is what the digest in the index says.")
}
