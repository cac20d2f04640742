//go:build !linux

package replica

// bigPages is for Linux alone.
func bigPages([]byte) {}
