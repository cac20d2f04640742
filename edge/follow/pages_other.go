//go:build !linux

package follow

// bigPages is for Linux alone.
func bigPages([]byte) {}
