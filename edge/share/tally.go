package share

// maxKnown bounds how many askers of each level have a count at a time. One that is
// forgotten begins anew; what it took still counts in all. Levels have bounds of their own:
// many clients of one network do not have the network forgotten.
const maxKnown = 4096

// tally counts by askers, at each level.
type tally [levels]map[Asker]int

// add adds n, which may be negative, to the count of an asker at each level, up to most for
// one client. A count that falls to 0 is forgotten.
func (t *tally) add(a Asker, n, most int) {
	for level := range a.levels() {
		if t[level] == nil {
			t[level] = map[Asker]int{}
		}
		counts, at := t[level], a.at(level)
		count, known := counts[at]
		if !known && len(counts) >= maxKnown {
			for some := range counts {
				delete(counts, some)
				break
			}
		}
		if count = min(count+n, most*weights[level]); count > 0 {
			counts[at] = count
		} else {
			delete(counts, at)
		}
	}
}

// of is what an asker counts for at a level: what the network has, by its weight.
func (t *tally) of(a Asker, level int) int { return t[level][a.at(level)] / weights[level] }

// halve halves all counts so many times.
func (t *tally) halve(times int) {
	for _, counts := range t {
		for a, count := range counts {
			if count >>= times; count > 0 {
				counts[a] = count
			} else {
				delete(counts, a)
			}
		}
	}
}

func (t *tally) clear() {
	for _, counts := range t {
		clear(counts)
	}
}
