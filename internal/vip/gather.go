package vip

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// All that one run of a become-leader hook adds has one announcer: the first vip add leaves it, and the later ones hand over to
// it what they have added. So a port has one pace, and an agent one follower, however many commands a hook has.
//
// They meet at a socket in the abstract namespace, which is the network's, as an interface's index is. Who is neither root nor
// the same user is not listened to.

// handOverPatience bounds what vip add waits for an announcer. Arbitrary.
const handOverPatience = 200 * time.Millisecond

// longestOrder is far above the addresses that a command line holds.
const longestOrder = 256 << 10

// taken is the answer to an order.
const taken = "taken"

// runName names the run of the become-leader hook that this process belongs to; "" if it belongs to none.
func runName(getenv func(string) string) string {
	if getenv("BULLY_EVENT") != "become-leader" || getenv("BULLY_SOCKET") == "" {
		return ""
	}
	h := sha256.New()
	for _, name := range []string{"BULLY_SOCKET", "BULLY_NODE_ID", "BULLY_EPOCH", "BULLY_EPOCH_OWNER", "BULLY_SEQ", "BULLY_TIME"} {
		h.Write([]byte(getenv(name) + "\x00"))
	}
	return "@bully-announcer-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// handOver has the announcer of a run take an order; false if it has none that does.
func handOver(run string, o order) bool {
	if run == "" {
		return false
	}
	conn, err := net.DialTimeout("unixpacket", run, handOverPatience)
	if err != nil {
		return false
	}
	defer conn.Close()
	if !isOfUs(conn) {
		return false
	}
	_ = conn.SetDeadline(time.Now().Add(handOverPatience)) // a socket has deadlines
	if _, err := conn.Write([]byte(strings.Join(o.words(), " "))); err != nil {
		return false
	}
	answer := make([]byte, len(taken))
	n, err := conn.Read(answer)
	return err == nil && string(answer[:n]) == taken
}

// gather takes the orders of others of a run. It gives nil if another announcer does already, or there is no run.
func (a *announcer) gather(run string) (stop func()) {
	if run == "" {
		return nil
	}
	l, err := net.Listen("unixpacket", run)
	if err != nil {
		return nil
	}
	go a.accept(l)
	return func() { l.Close() }
}

// acceptRetry is the pause after a connection could not be taken: this host has no file descriptor left, say. Arbitrary.
const acceptRetry = time.Second

// accept takes orders until the socket is closed.
func (a *announcer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptRetry)
		default:
			a.receive(conn)
		}
	}
}

// receive takes one order.
func (a *announcer) receive(conn net.Conn) {
	defer conn.Close()
	if !isOfUs(conn) {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(handOverPatience)) // a socket has deadlines
	packet := make([]byte, longestOrder)
	n, err := conn.Read(packet)
	if err != nil {
		return
	}
	o, err := parseOrder(strings.Fields(string(packet[:n])))
	if err != nil {
		return
	}
	r := request{order: o, taken: make(chan error, 1)}
	select {
	case a.orders <- r:
	case <-a.done:
		return
	}
	if <-r.taken == nil {
		_, _ = conn.Write([]byte(taken)) // who has gone does not need it
	}
}

// isOfUs reports whether the other end is root or this user.
func isOfUs(conn net.Conn) bool {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	ours := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ours = err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
	})
	return err == nil && ours
}
