package webhooks

import "time"

// SetPatience changes for how long others wait for a receiver.
func SetPatience(d time.Duration) { patience = d }

// Wait waits until no slow receiver is sent to.
func (s *Sender) Wait() { s.apart.Wait() }
