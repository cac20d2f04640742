//go:build !race && !wasip1

package coretest

// usual is how many histories there are without the flag.
const usual = 250
