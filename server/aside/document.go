package aside

import (
	"encoding/json"
	"strings"

	"webring/core"
	"webring/core/api"
)

// The paths of the documents of the ring, and what those of one member begin and end with.
const (
	hopsPath, eventsPath = "/api/hops", "/api/events"

	memberPrefix             = "/api/ring/"
	hopsSuffix, eventsSuffix = "/hops", "/events"
)

func baseURL(st *core.State) string {
	if rules := st.Rules(); rules != nil {
		return rules.BaseURL
	}
	return ""
}

func refuse(st *core.State, code api.Code, detail string) api.Document {
	return api.Refusal(baseURL(st), code, detail, "")
}

func refuseParameter(st *core.State, name, bounds string) api.Document {
	return api.Refusal(baseURL(st), api.InvalidParameter, name+" must be a number "+bounds+".", `,"parameter":"`+name+`"`)
}

// member finds the member that a path names. If there is none, refused says why.
func member(st *core.State, path, suffix string) (o core.Ordinal, slug string, refused *api.Document) {
	slug = strings.TrimSuffix(strings.TrimPrefix(path, memberPrefix), suffix)
	o, known := st.BySlug([]byte(slug))
	var d api.Document
	switch {
	case !known || st.Hidden(o):
		d = refuse(st, api.UnknownMember, "No member has this slug. GET /api/ring lists the members.")
	case st.Rank(o) == 0:
		d = refuse(st, api.MemberRemoved, "This member was removed from the ring. Its slug is not given again.")
	default:
		return o, slug, nil
	}
	return 0, "", &d
}

// answer writes a document that may be kept for age seconds. With a position it has words of
// members.
func answer(doc any, age int, seq uint64) api.Document {
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it has no values that JSON lacks
	}
	return api.Document{Status: 200, Media: "application/json", Body: body, MaxAge: age, Seq: seq}
}
