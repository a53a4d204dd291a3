package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
)

// freePorts finds n ports of 127.0.0.1 that nobody uses, neither UDP nor TCP.
//
// They lie below the range that the kernel takes ports of outgoing connections from. Inside of it, another agent's
// connection could take the port of a killed agent, or even connect to itself there, and seem to be the agent.
func freePorts(n int) ([]netip.AddrPort, error) {
	const lowest, tries = 10_000, 20
	top := lowestEphemeral()
	if top-lowest < tries*n {
		return nil, fmt.Errorf("find ports: net.ipv4.ip_local_port_range begins at %d: expected at least %d", top, lowest+tries*n)
	}
	var ports []netip.AddrPort
	first, width := rand.IntN(top-lowest), top-lowest
	for i := range width {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(lowest+(first+i)%width))
		if isFree(addr) {
			ports = append(ports, addr)
		}
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("find ports: too few of 127.0.0.1 are free")
}

// isFree tries it out. Somebody may take the port right after; the agent then says so.
func isFree(addr netip.AddrPort) bool {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return false
	}
	return udp.Close() == nil
}

// lowestEphemeral is the first port of outgoing connections; the kernel's default where it does not tell.
func lowestEphemeral() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		return usual
	}
	return low
}
