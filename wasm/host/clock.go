package host

import "time"

// backstep is how far the wall clock may go back before the head follows it:
// less is what clocks do when they are set right little by little.
const backstep = 5 * time.Second

// clock is the wall clock as a host takes it.
type clock struct {
	second int64 // highest since the last rewind, seconds since 1970, UTC
}

// tick takes a reading. It says whether the clock has stepped back by more than
// backstep, and all that depends on time is to follow it.
func (c *clock) tick(now time.Time) (rewound bool) {
	second := now.Unix()
	if second < c.second-int64(backstep/time.Second) {
		c.second = second
		return true
	}
	c.second = max(c.second, second)
	return false
}
