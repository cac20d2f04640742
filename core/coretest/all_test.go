//go:build !race && !wasip1

package coretest

// histories is how many there are.
const histories = 1000
