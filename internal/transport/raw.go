package transport

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The two system calls of the socket are raw: it never blocks, and around a system call that
// might the runtime wakes a thread that looks every 20 µs whether it does. In an idle agent
// that thread used more processor time than any other.

// recvfrom reads one datagram, or gives EAGAIN.
func recvfrom(fd uintptr, b []byte) (n int, from netip.AddrPort, errno syscall.Errno) {
	var sa unix.RawSockaddrInet6 // has room for either family
	size := uint32(unsafe.Sizeof(sa))
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, netip.AddrPort{}, errno
	}
	if sa.Family == unix.AF_INET {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sa))
		return int(r), netip.AddrPortFrom(netip.AddrFrom4(sa4.Addr), swapped(sa4.Port)), 0
	}
	addr := netip.AddrFrom16(sa.Addr)
	if sa.Scope_id != 0 { // of a link-local address, to which nothing is sent
		addr = addr.WithZone(strconv.Itoa(int(sa.Scope_id)))
	}
	return int(r), netip.AddrPortFrom(addr, swapped(sa.Port)), 0
}

// sendto sends one datagram to an address of the socket's family, or gives EAGAIN.
func sendto(fd uintptr, b []byte, to netip.AddrPort, ipv4 bool) syscall.Errno {
	sa := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swapped(to.Port()), Addr: to.Addr().As16()}
	size := unsafe.Sizeof(sa)
	if ipv4 {
		*(*unix.RawSockaddrInet4)(unsafe.Pointer(&sa)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swapped(to.Port()), Addr: to.Addr().As4()}
		size = unix.SizeofSockaddrInet4
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&sa)), size)
	return errno
}

// swapped is a port between host and network order.
func swapped(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}
