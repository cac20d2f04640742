package follow

import (
	"slices"
	"strings"
	"testing"
)

func list(t *testing.T, urls ...string) *Origins {
	t.Helper()
	l, err := NewOrigins(urls...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// round gives the URLs of a round, as one word each.
func round(l *Origins) string {
	var all []string
	for _, o := range l.Round() {
		all = append(all, strings.TrimPrefix(o.URL, "http://"))
	}
	return strings.Join(all, " ")
}

func TestOriginsTakeTurns(t *testing.T) {
	l := list(t, "http://a", "http://b/", "http://a/", "http://c")
	if is := round(l); is != "a b c" {
		t.Errorf("it begins with %s", is)
	}
	a := l.Current()
	if next := l.Skip(a); next == nil || next.URL != "http://b" || round(l) != "b c a" {
		t.Errorf("after a, %v, then %s", next, round(l))
	}
	if next := l.Skip(a); next != nil || round(l) != "b c a" {
		t.Errorf("a second failure of a leads to %v", next)
	}
	for range 2 {
		l.Skip(l.Current())
	}
	if l.Current() != a {
		t.Errorf("after all, %s", round(l))
	}
	one := list(t, "https://a:1")
	if one.Skip(one.Current()) != nil || one.Several() || one.Current().URL != "https://a:1" {
		t.Error("one origin moves on")
	}
	if none := list(t); none.Current() != nil || len(none.Round()) != 0 || none.Several() {
		t.Error("no origin is one")
	}
}

func TestReplacedOriginsEnd(t *testing.T) {
	l := list(t, "http://a", "http://b", "http://c")
	a, b := l.Current(), l.Skip(l.Current())
	if err := l.Replace("http://x", "http://b", "http://c"); err != nil {
		t.Fatal(err)
	}
	if l.Current() != b || round(l) != "b c x" || a.Gone().Err() == nil || b.Gone().Err() != nil {
		t.Errorf("%s; a: %v, b: %v", round(l), a.Gone().Err(), b.Gone().Err())
	}
	before := l.Round()
	for _, wrong := range []string{"ring.example", "ftp://x", "http://x/y", "http://x?y", "http://u@x", "http://"} {
		if err := l.Replace("http://a", wrong); err == nil || !slices.Equal(l.Round(), before) {
			t.Errorf("%s: %v, and then %s", wrong, err, round(l))
		}
	}
	if l.Skip(a) != nil {
		t.Error("an origin that is gone is skipped")
	}
	if err := l.Replace(); err != nil || l.Current() != nil || b.Gone().Err() == nil {
		t.Errorf("emptied: %v, %v", err, l.Current())
	}
	if err := l.Replace("http://b"); err != nil || l.Current() == b || l.Current().Gone().Err() != nil {
		t.Errorf("put in again: %v", err)
	}
}
