package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// wire sends frames to an interface's neighbours and reads those that may be a claim. One goroutine reads at a time.
type wire struct {
	fd    int
	file  *os.File // of fd, by which reading can wait, and end when it is closed
	index int
}

// claims lets through what parseClaim reads, so that a busy interface wakes nobody.
var claims = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 12, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: typeARP, SkipTrue: 6},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: typeIPv6, SkipTrue: 6},
	bpf.LoadAbsolute{Off: 20, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nextICMPv6, SkipTrue: 4},
	bpf.LoadAbsolute{Off: 54, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: advertisement, SkipTrue: 1},
	bpf.RetConstant{Val: frameRoom},
	bpf.RetConstant{Val: 0},
}

// frameRoom is more than an ARP packet or an advertisement with its option takes.
const frameRoom = 512

// openWire needs CAP_NET_RAW.
func openWire(index int) (*wire, error) {
	raw, err := bpf.Assemble(claims)
	if err != nil {
		panic("BUG: assemble filter: " + err.Error())
	}
	// Without a protocol it gets nothing, until the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, lacks(err, "announce an address", "CAP_NET_RAW")
	}
	w := &wire{fd: fd, file: os.NewFile(uintptr(fd), "packet socket"), index: index}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index, Protocol: bigEndian(unix.ETH_P_ALL)})
	}
	if err != nil {
		w.close()
		return nil, complain(Host, "", "open packet socket: %v", err)
	}
	return w, nil
}

func (w *wire) close() { _ = w.file.Close() }

// send sends a whole frame.
func (w *wire) send(frame []byte) error {
	to := &unix.SockaddrLinklayer{Ifindex: w.index, Protocol: bigEndian(binary.BigEndian.Uint16(frame[12:])), Halen: 6}
	copy(to.Addr[:], frame[:6])
	if err := unix.Sendto(w.fd, frame, 0, to); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// receive gives the next claim before a time; ok is false if there is none. What other sockets of this host send comes, too. The
// error is os.ErrClosed once the wire is closed.
func (w *wire) receive(until time.Time) (c claim, ok bool, err error) {
	if err := w.file.SetReadDeadline(until); err != nil {
		return claim{}, false, fmt.Errorf("receive frame: %w", err)
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return claim{}, false, fmt.Errorf("receive frame: %w", err)
	}
	frame := make([]byte, frameRoom)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), frame, unix.MSG_DONTWAIT)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return claim{}, false, nil
		case err == nil && errors.Is(failed, unix.EINTR):
			continue
		case err != nil || failed != nil:
			return claim{}, false, fmt.Errorf("receive frame: %w", errors.Join(err, failed))
		}
		if c, ok := parseClaim(frame[:n]); ok {
			at, isPacket := from.(*unix.SockaddrLinklayer)
			c.isSent = isPacket && at.Pkttype == unix.PACKET_OUTGOING && frame[0]&1 == 1
			return c, true, nil
		}
	}
}

// bigEndian is a number in the byte order of the network, as a value of this machine's.
func bigEndian(n uint16) uint16 { return binary.NativeEndian.Uint16([]byte{byte(n >> 8), byte(n)}) }

// lacks says which capability is missing, if that is what the kernel says. A service may also be forbidden the kind of socket.
func lacks(err error, what, capability string) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAFNOSUPPORT) {
		return complain(Host, "root has it; a service has it by vip.conf: bully-agent config check, as root, says how to install that", "this process may not %s (%v): it needs %s", what, err, capability)
	}
	return complain(Host, "", "%s: %v", what, err)
}
