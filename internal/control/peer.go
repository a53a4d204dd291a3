package control

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a unix connection, as the kernel
// vouches for it. It serves as the connection's remote address, since a unix
// client has no other.
type peer struct {
	pid    int   // 0: in another pid namespace
	uid    int   // -1: unknown, and trusted with nothing
	groups []int // its own, and the supplementary ones
}

// Network implements net.Addr.
func (peer) Network() string { return "unix" }

// String implements net.Addr.
func (p peer) String() string { return fmt.Sprintf("pid %d uid %d", p.pid, p.uid) }

// describe names the process for people.
func (p peer) describe() string {
	if p.uid < 0 {
		return "a process that does not answer"
	}
	if p.pid == 0 {
		return "a process of another pid namespace"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
	if err != nil {
		return fmt.Sprintf("pid %d", p.pid)
	}
	// %q: a process may put anything into its name.
	return fmt.Sprintf("pid %d (%q)", p.pid, strings.TrimSpace(string(comm)))
}

// peerOf asks the kernel who is at the other end of c (SO_PEERCRED): the
// process that connected, or seen from a client the one that listens.
func peerOf(c net.Conn) peer {
	unknown := peer{uid: -1}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return unknown
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return unknown
	}
	var cred *unix.Ucred
	var credErr error
	var groups []int
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			groups = groupsOf(int(fd), cred.Gid)
		}
	})
	if err != nil || credErr != nil {
		return unknown
	}
	return peer{pid: int(cred.Pid), uid: int(cred.Uid), groups: groups}
}

// peerListener accepts connections that know their peer.
type peerListener struct{ net.Listener }

// Accept implements net.Listener.
func (l peerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return peerConn{Conn: c, peer: peerOf(c)}, nil
}

// peerConn is a connection whose remote address is the process behind it.
type peerConn struct {
	net.Conn
	peer peer
}

// RemoteAddr implements net.Conn.
func (c peerConn) RemoteAddr() net.Addr { return c.peer }
