package devchain

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The ports of [FreeAddress] lie below the ephemeral ports, so that a program that opens
// connections does not take one by chance.
const (
	firstPort = 10_000
	ports     = 32_768 - firstPort
)

var lastPort = rand.Uint32N(ports)

// FreeAddress gives a loopback address at which nothing listens, for a process that is
// about to start there. It gives every address once before it repeats one, and
// programs that use it at the same time most likely begin at different ones. It panics
// if every port is taken.
func FreeAddress() string {
	for range ports {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(firstPort+atomic.AddUint32(&lastPort, 1)%ports), 10))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	panic("devchain: every port of loopback is taken")
}
