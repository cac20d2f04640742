package hops

import "context"

// Sweep deletes what is no longer kept.
func (s *Store) Sweep(ctx context.Context) error { return s.sweep(ctx) }
