// Package loopback gives tests addresses that no other process uses, also while the agent that has one is down.
package loopback

import (
	"net/netip"
	"os"
	"sync/atomic"
)

// first lies below the ports that the kernel takes for outgoing connections.
const first = 10_000

var given atomic.Uint32

// Addr is an address of loopback, with a port for UDP and TCP, that this process gets once and no other process gets.
//
// The address is of the process: the 22 bits of its pid stand below 127.64.0.0. A port that is only found to be free may be
// another's while an agent is restarted.
func Addr() netip.AddrPort {
	pid := uint32(os.Getpid())
	host := netip.AddrFrom4([4]byte{127, byte(64 + pid>>16&63), byte(pid >> 8), byte(pid)})
	return netip.AddrPortFrom(host, uint16(first+given.Add(1)))
}
