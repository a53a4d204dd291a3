package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// Where a frame says who sent it, and in which life (go doc ./wire).
const (
	frameSender      = 16
	frameIncarnation = 32
	frameNonce       = 36
	frameLife        = 40 // the end of that
)

// gossipQueue is how many datagrams may wait for memberlist, which takes them as fast as they come unless it stands still.
// More would only be older when it goes on; at 1,200 bytes each this is 300 KiB.
const gossipQueue = 256

// Config is what Wrap needs. Cluster, Key, Life and Keys must be set.
type Config struct {
	Cluster     string           // its name; another's traffic does not open
	Key         identity.Private // of this host; its id follows from it
	Incarnation uint32           // of this life, on the host's disk
	Life        [8]byte          // random, new for each life
	Keys        key.Ring         // 1 to 4 keys
	Hosts       identity.Hosts   // who may join
	// Receipts are those that were kept before, as LAN.Receipts gave them.
	Receipts []session.Receipt
	// Older is told once that this host's state is an older copy: it had a life with that incarnation, which is later than the
	// present one. Nothing is sent or handed over from then on. It is called without a lock, and must not wait. Nil: nobody is told.
	Older func(incarnation uint32)
	// Advertise is where others send to. It is bound into each handshake, so it must
	// be what they use; zero means the Addr of the LAN below.
	Advertise netip.AddrPort
	// Now must never go backwards; nil means time.Now.
	Now func() time.Time
	// Rand gives unpredictable bytes; nil means crypto/rand.
	Rand io.Reader
	// Logger gets what a person can mend, each thing once a minute. Nil discards it.
	Logger hclog.Logger
}

// LAN is the port to the other hosts: gossip for memberlist, election frames for the agent, all of it sealed. All methods
// but ReadFrame may be called concurrently.
//
// It starts no goroutine of its own: who calls ReadFrame drives it, gossip too, and one timer.
type LAN struct {
	below   transport.LAN
	cfg     Config
	gossip  chan *memberlist.Packet
	streams <-chan net.Conn
	buf     [session.MaxDatagram + 1]byte // ReadFrame's: one more, so that a longer datagram is seen to be one

	mu      sync.Mutex
	table   *session.Table
	timer   *time.Timer
	armed   time.Time // what the timer is set to; zero: not set
	closed  bool
	told    map[matter]time.Time // what people were told, and when they may be told again
	news    []session.Trouble    // to be told once the lock is given back
	shown   []session.Shown      // as well
	watch   func(session.Shown)  // who is told; nil: nobody
	older   uint32               // as well; zero: nothing
	isShut  bool                 // others leave this host out, so that it may stand no more
	onShut  func()               // who is told; nil: nobody
	hasShut bool                 // isShut has changed, and nobody was told yet
	tethers map[*stream]tether   // that are open
	sealed  uint64               // datagrams, out
	opened  uint64               // and in
}

var _ memberlist.NodeAwareTransport = (*LAN)(nil)

// Wrap seals all that goes over lan, which is the wrapper's from then on, and must not
// have been used. If it fails lan is still the caller's.
func Wrap(lan transport.LAN, cfg Config) (*LAN, error) {
	switch {
	case len(cfg.Keys) == 0 || len(cfg.Keys) > key.MaxKeys:
		return nil, fmt.Errorf("seal: %d keys; expected 1 to %d", len(cfg.Keys), key.MaxKeys)
	case cfg.Key.IsZero():
		return nil, errors.New("seal: no key of this host given")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Older == nil {
		cfg.Older = func(uint32) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if !cfg.Advertise.IsValid() {
		cfg.Advertise = lan.Addr()
	}
	l := &LAN{below: lan, cfg: cfg, gossip: make(chan *memberlist.Packet, gossipQueue), told: make(map[matter]time.Time), tethers: make(map[*stream]tether)}
	l.table = session.New(l.tableConfig())
	l.table.SetKeys(cfg.Now(), cfg.Keys)
	l.streams = lan.Serve(l.Accept)
	return l, nil
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// locked calls f with the table and the time, sees to the timer, and tells people what
// there is to tell, without the lock: a log may block.
func (l *LAN) locked(f func(t *session.Table, now time.Time)) {
	l.mu.Lock()
	f(l.table, l.cfg.Now())
	l.arm()
	news, shown, watch, older := l.news, l.shown, l.watch, l.older
	hasShut, onShut := l.hasShut, l.onShut
	l.news, l.shown, l.older, l.hasShut = nil, nil, 0, false
	l.mu.Unlock()
	if older > 0 {
		l.cfg.Older(older)
	}
	if hasShut && onShut != nil {
		onShut()
	}
	for _, s := range shown {
		watch(s)
	}
	for _, n := range news {
		tell(l.cfg.Logger, n)
	}
}

// arm sets the timer to what is due first. The lock is held.
func (l *LAN) arm() {
	due := l.table.Due()
	if l.closed || due.IsZero() || due.Equal(l.armed) {
		return
	}
	l.armed = due
	wait := max(due.Sub(l.cfg.Now()), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, func() {
			l.locked(func(t *session.Table, now time.Time) {
				if l.armed = (time.Time{}); !l.closed {
					t.Tick(now)
				}
			})
		})
		return
	}
	l.timer.Reset(wait)
}

// SendFrame seals one frame and sends it; where there is no session yet it waits for
// one, 200 ms at most, and three more with it. It never blocks. An error says that the
// frame did not leave this host; nil promises nothing.
func (l *LAN) SendFrame(to netip.AddrPort, b []byte) (err error) {
	l.locked(func(t *session.Table, now time.Time) {
		l.sealed++
		err = t.Send(now, unmap(to), b)
	})
	return err
}

// WriteTo is WriteToAddress for those who do not know the member's name.
func (l *LAN) WriteTo(b []byte, addr string) (time.Time, error) {
	return l.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress seals one gossip datagram, as SendFrame does a frame.
func (l *LAN) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr.Addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send gossip: parse address: %w", err)
	}
	if err := l.SendFrame(to, b); err != nil {
		return time.Time{}, gossipError(to, err)
	}
	return time.Now(), nil
}

// gossipError gives an error of the kernel the type by which memberlist knows
// "that member cannot be reached", which makes it ask others at once instead of
// waiting for an answer. A full buffer of our own says nothing about a member.
func gossipError(to netip.AddrPort, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("send gossip to %s: %w", to, err)
	}
	return &net.OpError{Op: "write", Net: "udp", Addr: net.UDPAddrFromAddrPort(to), Err: err}
}

// PacketCh gives memberlist the gossip that was opened, and no other.
func (l *LAN) PacketCh() <-chan *memberlist.Packet { return l.gossip }

// ReadFrame blocks until the next frame that was sealed by the host that it names, copies
// it into b and gives its length. The address is where that host is reached, wherever the
// datagram came from. A will is given too, from anywhere: it names nobody, and only its
// secret counts. One goroutine calls it, for as long as the port is open. net.ErrClosed
// means shut down.
func (l *LAN) ReadFrame(b []byte) (int, netip.AddrPort, error) {
	for {
		n, from, err := l.below.Read(l.buf[:])
		if err != nil {
			return 0, netip.AddrPort{}, err
		}
		if _, isWill := wire.ParseWill(l.buf[:n]); isWill { // S13
			return copy(b, l.buf[:n]), unmap(from), nil
		}
		var inner []byte
		l.locked(func(t *session.Table, now time.Time) { inner, from = l.receive(t, now, from, l.buf[:n]) })
		switch {
		case inner == nil:
		case inner[0] == wire.Magic0:
			return copy(b, inner), from, nil
		default:
			l.handGossip(inner, from)
		}
	}
}

// receive gives what was sealed in a datagram, and the sender's address; nil: nothing
// for the agent. The lock is held.
func (l *LAN) receive(t *session.Table, now time.Time, from netip.AddrPort, b []byte) ([]byte, netip.AddrPort) {
	inner, peer, _ := t.Receive(now, unmap(from), b)
	switch {
	case inner == nil:
		return nil, from
	case inner[0] == wire.Magic0 && !isFrameOf(inner, peer.Life):
		t.Count(session.CauseSender)
		l.note(session.Trouble{Cause: session.CauseSender, From: from, Theirs: peer.ID})
		return nil, from
	case peer.Addr.IsValid():
		from = peer.Addr
	}
	l.opened++
	return inner, from
}

// isFrameOf (S11): which life sealed a frame must be the one that it names, or a member could speak for another, and one life
// for the next.
func isFrameOf(b []byte, who session.Life) bool {
	return len(b) >= frameLife && b[1] == wire.Magic1 && wire.ID(b[frameSender:frameIncarnation]) == who.ID &&
		binary.BigEndian.Uint32(b[frameIncarnation:]) == who.Incarnation && binary.BigEndian.Uint32(b[frameNonce:]) == who.Nonce()
}

// handGossip queues a copy for memberlist, or drops it.
func (l *LAN) handGossip(b []byte, from netip.AddrPort) {
	select {
	case l.gossip <- &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}:
	default:
		l.locked(func(t *session.Table, _ time.Time) { t.Count(session.CauseFull) })
	}
}

// KeepWarm (S10) replaces the addresses with which a session is kept whether anybody sends
// or not, so that what is urgent waits for no handshake.
func (l *LAN) KeepWarm(addrs []netip.AddrPort) {
	l.locked(func(t *session.Table, now time.Time) { t.KeepWarm(now, addrs) })
}

// Renew begins another life at another address: all sessions are forgotten, and others begin new ones with it.
func (l *LAN) Renew(incarnation uint32, life [8]byte, advertise netip.AddrPort) {
	l.locked(func(old *session.Table, now time.Time) {
		l.cfg.Incarnation, l.cfg.Life, l.cfg.Advertise = incarnation, life, advertise
		l.table = old.Renewed(now, l.tableConfig(), l.cfg.Keys)
	})
}

func (l *LAN) tableConfig() session.Config {
	return session.Config{Key: l.cfg.Key, Incarnation: l.cfg.Incarnation, Random: l.cfg.Life, Addr: unmap(l.cfg.Advertise),
		Cluster: l.cfg.Cluster, Rand: l.cfg.Rand, Emit: l.below.Send, Note: l.note, Shown: l.onShown, Hosts: l.cfg.Hosts, Shut: l.noteShut,
		Receipts: l.cfg.Receipts, Older: func(incarnation uint32) { l.older = incarnation }}
}

// SetKeys replaces the ring, which must not be empty. Sessions under a key that is not
// in it any more end within a second, and new ones are begun at once. Tethers under it end now.
func (l *LAN) SetKeys(ring key.Ring) {
	var out []*stream
	l.locked(func(t *session.Table, now time.Time) {
		l.cfg.Keys = ring
		t.SetKeys(now, ring)
		out = l.tethersOf(func(held tether) bool {
			_, stays := ring.Find(held.under)
			return !stays
		})
	})
	closeAll(out)
}

// Heard implements membership.Sessions.
func (l *LAN) Heard(id wire.ID, nonce uint32) (incarnation uint32, addr netip.AddrPort, ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who, ago, ok := l.table.Heard(l.cfg.Now(), id, nonce)
	return who.Incarnation, who.Addr, ago, ok
}

// Know has the LAN below keep places for streams from these addresses, if it can.
func (l *LAN) Know(addrs []netip.Addr) {
	if below, ok := l.below.(interface{ Know([]netip.Addr) }); ok {
		below.Know(addrs)
	}
}

// Addr is the address that is listened on.
func (l *LAN) Addr() netip.AddrPort { return l.below.Addr() }

// FinalAdvertiseAddr gives memberlist the address that it tells others.
func (l *LAN) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return l.below.FinalAdvertiseAddr(ip, port)
}

// Shutdown closes the port.
func (l *LAN) Shutdown() error {
	l.mu.Lock()
	if l.closed = true; l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	return l.below.Shutdown()
}

// matter is what people are told once a minute.
type matter struct {
	cause session.Cause
	from  netip.Addr
}

// maxMatters bounds the lines of a minute, whatever others send.
const maxMatters = 16

// note has people told of what they can mend. The lock is held.
func (l *LAN) note(n session.Trouble) {
	now := l.cfg.Now()
	m := matter{n.Cause, n.From.Addr()}
	if n.Cause == session.CauseRefused {
		m.cause = session.CauseKey // both ends of one matter
	}
	if now.Before(l.told[m]) {
		return
	}
	maps.DeleteFunc(l.told, func(_ matter, until time.Time) bool { return !now.Before(until) })
	if len(l.told) < maxMatters {
		l.told[m] = now.Add(time.Minute)
		l.news = append(l.news, n)
	}
}

// tell writes one line.
func tell(log hclog.Logger, n session.Trouble) {
	args := []any{"cause", n.Cause.String(), "addr", n.From}
	if n.Ours != nil {
		args = append(args, "ours", fmt.Sprint(n.Ours))
	}
	if n.Theirs != nil {
		args = append(args, "theirs", fmt.Sprint(n.Theirs))
	}
	log.Warn("not taken: "+hint(n), args...)
}

// hint says in words what is the matter. Of two hosts that share no key one may have none at all.
func hint(n session.Trouble) string {
	switch n.Keyless {
	case session.There:
		return "this host has a key, and the other has none"
	case session.Here:
		return "the other host has a key, and this one has none"
	}
	return hints[n.Cause]
}

// hints say what is the matter in words.
var hints = map[session.Cause]string{
	session.CausePlain:    "it is not sealed: an agent of an earlier version, which is to be upgraded, or another program",
	session.CauseVersion:  "the other host seals by another version: upgrade the older of the two",
	session.CauseKey:      "the other host begins with a key that this one has not",
	session.CauseRefused:  "the other host has none of the keys that this one begins with",
	session.CausePrologue: "sealed for another cluster, or for another address than this host advertises",
	session.CauseSender:   "a member speaks in another's name",
	session.CauseClash:    "two agents have one id, ours the one that is heard here: one state directory was copied from the other",
	session.CausePast:     "a host has begun an earlier life than was heard of it: its state directory is an older copy, so bully-agent id new there",
	session.CauseUnlisted: "hosts does not name it: if it is yours, add its id to hosts here and reload",
	session.CauseLeftOut:  "hosts there does not name this host: add its id there and reload",
	session.CauseStream:   "a stream whose other end did not prove itself",
}
