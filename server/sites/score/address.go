package score

import (
	"cmp"
	"net"
)

// Address gives host and port of the service that a scorer from [New] asks, "" for one
// that asks none.
func Address(s Scorer) string {
	r, ok := s.(*remote)
	if !ok {
		return ""
	}
	port := "443"
	if r.origin.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(r.origin.Hostname(), cmp.Or(r.origin.Port(), port))
}
