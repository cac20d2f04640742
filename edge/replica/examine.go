package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"webring/core/api"
)

// questions have the same answers in every build: those that do not leave it to
// chance.
var questions = []string{
	"/api", "/api/categories", "/nowhere", "/api/nowhere", "/",
	"/api/ring", "/api/ring?limit=1&offset=1", "/api/ring?kind=agent&limit=500", "/api/ring?kind=mcp&page=2&limit=3",
	"/api/ring?category=general", "/api/ring?limit=0", "/api/ring?kind=x", "/api/ring/nobody", "/api/ring/%00",
	"/api/leaderboard", "/api/leaderboard?page=2&limit=2", "/api/leaderboard?limit=500&offset=20", "/api/leaderboard?limit=501",
	"/api/widget", "/api/widget?from=nobody.invalid", "/api/widget?from=%zz",
	"/api/ring/next", "/api/ring/prev?kind=website", "/api/ring/next?from=nobody.invalid", "/api/ring/next?format=redirect", "/api/ring/next?format=x",
	"/next", "/prev", "/next?category=general", "/prev?kind=x", "/next?from=https%3A%2F%2Fexample.com%2F%3Fa%3Db",
}

const (
	// examined is how many members, from the beginning of the ring and from the top
	// of the leaderboard, a module is asked about.
	examined = 20
	// examTime is how long it may take to answer. Nothing new is accepted meanwhile.
	examTime = time.Minute
)

// worded are the fields that explain something to people, by the path of a document
// and their names in it, or in any problem. A newer core may find other words for
// it; with a name, all that lies in that field.
var worded = map[string]bool{
	"/api.description": true, "/api.payments.protocol": true, "/api.payments.how": true, "/api.validation.rule": true, "/api.endpoints": true,
	"/api/leaderboard.rules.ranking": true, "/api/leaderboard.rules.bid": true,
	"problem.title": true, "problem.detail": true,
}

// examine asks c, and holds its answers against those of the judge, a core of the
// build that is shown, which has nobody else who would tell it the time. A newer
// core may say more than it, and explain it in other words. One that was shown before,
// or that of this process, may say less than one that was shown since.
func (r *Replica) examine(c Core, m Module) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	if err := checkState(c, r.at); err != nil {
		return err
	}
	if r.proven[m.Digest] {
		return nil
	}
	if r.judge.BaseURL() != c.BaseURL() {
		return fmt.Errorf("its links begin with %q", c.BaseURL())
	}
	// Each may have been told a time already, and stays there.
	_, at := r.judge.Head()
	_, second := c.Head()
	now := time.Unix(max(at, second, time.Now().Unix()), 0)
	r.judge.Tick(now)
	c.Tick(now)
	var was, is api.Response
	began := time.Now()
	for _, target := range slices.Concat(questions, r.aboutMembers()) {
		r.judge.Serve([]byte(target), &was)
		c.Serve([]byte(target), &is)
		if time.Since(began) > examTime {
			return fmt.Errorf("its answers take too long: %s until that to %s", examTime, target)
		}
		if was.Status != is.Status || string(was.Location) != string(is.Location) || was.Seq != is.Seq || was.Unknown != is.Unknown || was.Media != is.Media {
			return fmt.Errorf("%s: it answers %d %s, not %d %s", target, is.Status, is.Location, was.Status, was.Location)
		}
		if !bytes.Equal(was.Next, is.Next) || !bytes.Equal(was.Prev, is.Prev) {
			return fmt.Errorf("%s: it has other pages around", target)
		}
		if err := sameDocument(target, &was, &is); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}

// aboutMembers gives questions about some members of the ring.
func (r *Replica) aboutMembers() (asked []string) {
	var some struct{ Members, Leaderboard []struct{ Slug string } }
	var answer api.Response
	for _, list := range []string{"/api/ring", "/api/leaderboard"} {
		r.judge.Serve(fmt.Appendf(nil, "%s?limit=%d", list, examined), &answer)
		// Whatever is no such document has no members to ask about.
		_ = json.Unmarshal(answer.Body, &some)
	}
	for _, m := range append(some.Members, some.Leaderboard...) {
		for _, question := range []string{"/api/ring/%s", "/api/widget?from=%s", "/api/ring/next?from=%s", "/api/ring/prev?from=%s", "/next?from=%s", "/prev?from=%s"} {
			asked = append(asked, fmt.Sprintf(question, m.Slug))
		}
	}
	return asked
}

// sameDocument says in what a document is another than it was; of a page, in which
// there is nothing but a link, it says nothing.
func sameDocument(target string, was, is *api.Response) error {
	document, _, _ := strings.Cut(target, "?")
	switch was.Media {
	case api.Problem:
		document = "problem"
	case api.JSON:
	default:
		return nil
	}
	before, err := decode(was.Body)
	if err != nil {
		return fmt.Errorf("the core at hand: %w", err)
	}
	after, err := decode(is.Body)
	if err != nil {
		return fmt.Errorf("its answer is no document: %w", err)
	}
	return contains(document, after, before)
}

// decode reads a document, numbers as they are written.
func decode(b []byte) (document any, err error) {
	if !json.Valid(b) { // a decoder does not look at what follows
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&document)
	return document, err
}

// contains says where a document, of which this is the value at a path, does not say
// what it did: each field is there, each list as long, all else equal but for words.
func contains(path string, document, was any) error {
	switch was := was.(type) {
	case map[string]any:
		fields, ok := document.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", path)
		}
		for name, value := range was {
			field := path + "." + name
			if worded[path] {
				field = path
			}
			now, has := fields[name]
			if !has {
				return fmt.Errorf("it has no %s in %s", name, path)
			}
			if err := contains(field, now, value); err != nil {
				return err
			}
		}
	case []any:
		items, ok := document.([]any)
		if !ok || len(items) != len(was) {
			return fmt.Errorf("%s has not %d items", path, len(was))
		}
		for i, value := range was {
			if err := contains(path, items[i], value); err != nil {
				return err
			}
		}
	default:
		if _, ok := document.(string); ok && worded[path] {
			return nil
		}
		// Strings, numbers as they are written, true, false and null.
		if document != was {
			return fmt.Errorf("%s is not %.80v", path, was)
		}
	}
	return nil
}
