//go:build !race

package coretest

// histories is how many there are.
const histories = 1000
