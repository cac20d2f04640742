package search

import (
	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// age is for how many seconds a document may be kept.
const age = 10

// Document answers a GET for /api/ring with this query, which asks for words.
func (x *Index) Document(query string) api.Document {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.follow()
	var r api.Response
	x.books.View(func(v *ledger.View) {
		st := v.State()
		if err != nil {
			r = api.Response{Status: api.Internal.Status(), Media: api.Problem,
				Body: api.AppendProblem(nil, baseURL(st), api.Internal, "The ledger cannot be read.", nil)}
			return
		}
		api.Search(st, []byte(query), func(q []byte) ([]core.Ordinal, bool) {
			words, ok := asked(string(q))
			if !ok {
				return nil, false
			}
			return x.find(st, words), true
		}, &r)
	})
	d := api.Document{Status: r.Status, Media: "application/json", Body: r.Body, MaxAge: age, Seq: r.Seq}
	if r.Media == api.Problem {
		d.Media = "application/problem+json"
	}
	return d
}

func baseURL(st *core.State) string {
	if rules := st.Rules(); rules != nil {
		return rules.BaseURL
	}
	return ""
}
