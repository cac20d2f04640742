package core

// Due is the number of members with a standing that [State.Advance] to second now changes, at
// most limit.
func (s *State) Due(now int64, limit int) int { return s.due.Due(now, 0, limit) }
