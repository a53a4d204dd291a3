package attack

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tape keeps packets in the order in which they were sent, up to a number of bytes: what comes
// after that is counted alone. Its methods may be called concurrently.
type Tape struct {
	most int // bytes of payload

	mu    sync.Mutex
	kept  []Packet
	bytes int
	lost  uint64
}

// NewTape makes a tape for so many bytes of payload.
func NewTape(most int) *Tape { return &Tape{most: most} }

// Add keeps p and a copy of its payload.
func (t *Tape) Add(p Packet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes+len(p.Payload) > t.most {
		t.lost++
		return
	}
	p.Payload = slices.Clone(p.Payload)
	t.kept, t.bytes = append(t.kept, p), t.bytes+len(p.Payload)
}

// Packets gives what is kept so far; nobody may change the payloads.
func (t *Tape) Packets() []Packet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept)
}

// Lost is how many packets found the tape full.
func (t *Tape) Lost() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Tap hears what crosses a switch.
type Tap struct {
	socket int
	hear   func(Packet)
	over   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
}

// Listen hears each packet once, where it enters the bridge of the calling thread's namespace,
// and calls hear with it, whose payload is lost afterwards. What enters by the port called mute,
// the attacker's own, is left out. Close ends it.
func Listen(mute string, hear func(Packet)) (*Tap, error) {
	t := &Tap{hear: hear, over: make(chan struct{})}
	if err := t.open(mute); err != nil {
		return nil, fmt.Errorf("listen at the switch: %w", err)
	}
	t.ended.Go(t.read)
	return t, nil
}

const (
	everyProtocol = unix.ETH_P_ALL << 8 // in network order; a bridge takes packets before those who ask for one protocol
	lookInterval  = 100 * time.Millisecond
	tapBuffer     = 16 << 20 // what waits for us: a burst is heard whole
)

func (t *Tap) open(mute string) error {
	port, err := net.InterfaceByName(mute)
	if err != nil {
		return err
	}
	if t.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	look := unix.NsecToTimeval(int64(lookInterval))
	err = errors.Join(
		unix.SetsockoptSockFprog(t.socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, entering(uint32(port.Index))),
		unix.SetsockoptInt(t.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer),
		unix.SetsockoptTimeval(t.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &look),
		unix.Bind(t.socket, &unix.SockaddrLinklayer{Protocol: everyProtocol}))
	if err != nil {
		_ = unix.Close(t.socket)
	}
	return err
}

// entering is a filter of the kernel's that takes what comes in by another port than mute. A
// packet that crosses the switch is seen once more where it leaves, and a broadcast again at the
// bridge's own interface, as one that is for this host or for all: only what is for others, by the
// addresses of Ethernet, is taken.
func entering(mute uint32) *unix.SockFprog {
	const (
		ancillary = 0xfffff000 // SKF_AD_OFF: not of the packet, but about it
		itsType   = ancillary + 4
		itsPort   = ancillary + 8
	)
	load := func(what uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: what}
	}
	give := func(bytes uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: bytes} }
	program := []unix.SockFilter{
		load(itsType),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_OTHERHOST, Jf: 3},
		load(itsPort),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: mute, Jt: 1},
		give(1 << 16),
		give(0),
	}
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
}

func (t *Tap) read() {
	buf := make([]byte, 1<<16)
	for {
		select {
		case <-t.over:
			return
		default:
		}
		n, _, err := unix.Recvfrom(t.socket, buf, 0)
		if err != nil {
			continue // nothing came for a while
		}
		if p, ok := Parse(buf[:n]); ok {
			t.hear(p)
		}
	}
}

// Close ends the listening; hear is not called any more.
func (t *Tap) Close() {
	t.once.Do(func() {
		close(t.over)
		t.ended.Wait()
		_ = unix.Close(t.socket)
	})
}
