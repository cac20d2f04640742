package fair

// maxKnown bounds how many names of each level have a count at a time. One that is
// forgotten begins anew; what it took still counts in all. Levels have bounds of their own:
// many clients of one network do not have the network forgotten.
const maxKnown = 4096

// tally counts by the names of askers, at each level.
type tally struct {
	counts map[string]count
	known  [levels]int // names with a count
}

type count struct{ level, n int }

// add adds n, which may be negative, to each name of an asker, up to most for one client. A
// count that falls to 0 is forgotten.
func (t *tally) add(a Asker, n, most int) {
	if t.counts == nil {
		t.counts = map[string]count{}
	}
	for level := range a.levels() {
		name := a.name(level)
		c, known := t.counts[name]
		if !known {
			c.level = level
			t.makeRoom(level)
		}
		if c.n = min(c.n+n, most*weights[level]); c.n > 0 {
			t.counts[name] = c
		} else if known {
			t.forget(name, level)
		}
		if !known && c.n > 0 {
			t.known[level]++
		}
	}
}

func (t *tally) forget(name string, level int) {
	delete(t.counts, name)
	t.known[level]--
}

// makeRoom forgets some name of a level, if as many are known as may be.
func (t *tally) makeRoom(level int) {
	if t.known[level] < maxKnown {
		return
	}
	for name, c := range t.counts {
		if c.level == level {
			t.forget(name, level)
			return
		}
	}
}

// of is what an asker counts for at a level: what the name has, by its weight.
func (t *tally) of(a Asker, level int) int { return t.counts[a.name(level)].n / weights[level] }

// halve halves all counts so many times.
func (t *tally) halve(times int) {
	for name, c := range t.counts {
		if c.n >>= times; c.n > 0 {
			t.counts[name] = c
		} else {
			t.forget(name, c.level)
		}
	}
}

func (t *tally) clear() {
	clear(t.counts)
	t.known = [levels]int{}
}
