package aside

import "context"

// Sweep deletes what is no longer kept.
func (s *Hops) Sweep(ctx context.Context) error { return s.sweep(ctx) }
