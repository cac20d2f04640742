package fair

// maxKnown bounds how many names of each level have a count at a time. One that is
// forgotten begins anew; what it took still counts in all. Levels have bounds of their own:
// many clients of one network do not have the network forgotten.
const maxKnown = 4096

// tally counts by the names of askers, at each level.
type tally [levels]map[string]int

// add adds n, which may be negative, to each name of an asker, up to most for one client. A
// count that falls to 0 is forgotten.
func (t *tally) add(a Asker, n, most int) {
	for level := range t {
		name := a.name(level)
		if level > 0 && name == a.client {
			return
		}
		counts := t[level]
		if counts == nil {
			counts = map[string]int{}
			t[level] = counts
		}
		count, known := counts[name]
		if !known && len(counts) >= maxKnown {
			for other := range counts {
				delete(counts, other)
				break
			}
		}
		if count = min(count+n, most*weights[level]); count > 0 {
			counts[name] = count
		} else {
			delete(counts, name)
		}
	}
}

// of is what an asker counts for: the most that one of its names has, by its weight.
func (t *tally) of(a Asker) int {
	count := 0
	for level := range t {
		count = max(count, t[level][a.name(level)]/weights[level])
	}
	return count
}

// halve halves all counts so many times.
func (t *tally) halve(times int) {
	for _, counts := range t {
		for name, count := range counts {
			if count >>= times; count > 0 {
				counts[name] = count
			} else {
				delete(counts, name)
			}
		}
	}
}

func (t *tally) clear() {
	for _, counts := range t {
		clear(counts)
	}
}
