package membership

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxNodes is how many members a push/pull may tell of: those that are alive, and
	// those whose ends memberlist has not forgotten yet; see newcomers.
	maxNodes = 1 << 13

	// maxState is what else it tells: see ledgers.
	maxState = 2 + recordSize + MaxLedger

	// maxPushPull bounds a whole one, in bytes: 8,192 members of 400 bytes each, which
	// is what ours take, and a ledger.
	maxPushPull = 4 << 20

	// maxPending bounds what is being read of all push/pulls at one time, in bytes.
	// One of a large group is a tenth of it and takes milliseconds.
	maxPending = 16 << 20

	// nodeCost is what memberlist allocates for each member that a push/pull announces
	// before it has read one (pushNodeState).
	nodeCost = 112
)

var (
	headerShape = []field{{"Nodes", number, maxNodes}, {"UserStateLen", number, maxState}, {"Join", flag, 0}}
	nodeShape   = []field{{"Name", nodeOrNone, 0}, {"Addr", raw, addrSize}, {"Port", number, maxPort}, {"Meta", raw, maxMeta},
		{"Incarnation", incarnation, 0}, {"State", number, 3}, {"Vsn", raw, vsnSize}}
)

// pending is what is being read of all streams together.
type pending struct{ bytes atomic.Int64 }

// checkedConn is a stream of memberlist's that carries a push/pull from the other
// end and nothing else. Each piece of it, the label, the header, a member, is read
// whole and checked before memberlist gets a byte of it.
type checkedConn struct {
	net.Conn
	filter *filter
	in     *bufio.Reader
	label  []byte // expected first; nil: none, as in an answer
	next   func() error
	ready  []byte // checked and not read yet
	piece  []byte // ready's memory
	nodes  uint64 // members to come
	state  uint64 // bytes to come after them
	total  int
	err    error

	close sync.Once
	cost  int64 // the reader's, of pending
}

func (f *filter) checked(conn net.Conn, label []byte) *checkedConn {
	c := &checkedConn{Conn: conn, filter: f, in: bufio.NewReaderSize(conn, 1<<10), label: label}
	if c.next = c.readLabel; label == nil {
		c.next = c.readHeader
	}
	return c
}

// Read gives what was checked. Like any net.Conn's it is called by one reader at a
// time.
func (c *checkedConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for len(c.ready) == 0 {
		if c.err == nil {
			c.piece = c.piece[:0]
			if c.err = c.next(); c.err != nil {
				c.filter.refuse(c.err)
			}
		}
		if c.err != nil {
			return 0, c.err
		}
		c.ready = c.piece
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// Close also gives back what the stream took of pending. memberlist closes when it
// has read what it wants.
func (c *checkedConn) Close() error {
	c.close.Do(func() { c.filter.pending.bytes.Add(-c.cost) })
	return c.Conn.Close()
}

// more reads n bytes behind the piece, and gives all of it.
func (c *checkedConn) more(n int) ([]byte, error) {
	if c.total+n > maxPushPull {
		return nil, tooLarge
	}
	if err := c.take(n); err != nil {
		return nil, err
	}
	c.total += n
	at := len(c.piece)
	for range n {
		c.piece = append(c.piece, 0)
	}
	_, err := io.ReadFull(c.in, c.piece[at:])
	if err == io.EOF && c.total > n {
		err = io.ErrUnexpectedEOF
	}
	return c.piece, err
}

// take has a place in pending.
func (c *checkedConn) take(n int) error {
	c.cost += int64(n)
	if c.filter.pending.bytes.Add(int64(n)) > maxPending {
		return unfit("busy")
	}
	return nil
}

func (c *checkedConn) readLabel() error {
	b, err := c.more(2)
	if err != nil {
		return err
	}
	if b[0] != labelMsg || b[1] != c.label[1] {
		return unfit("label")
	}
	if b, err = c.more(int(b[1])); err != nil {
		return err
	}
	if !bytes.Equal(b, c.label) {
		return unfit("label")
	}
	c.next = c.readHeader
	return nil
}

// readHeader: a length is held against its bound before memberlist allocates it.
func (c *checkedConn) readHeader() error {
	b, err := c.more(1)
	if err != nil {
		return err
	}
	if b[0] != pushPullMsg {
		return streamKind(b[0])
	}
	var values [3]uint64
	s := scan{b: b, at: 1, more: c.more}
	if err := s.object(headerShape, values[:]); err != nil {
		return err
	}
	c.nodes, c.state = values[0], values[1]
	c.next = c.readNode
	return c.take(int(c.nodes)*nodeCost + int(c.state))
}

func streamKind(t byte) error {
	if int(t) < len(shapes) && shapes[t] != nil {
		return unfit("type")
	}
	return kindOf(t)
}

func (c *checkedConn) readNode() error {
	if c.nodes == 0 {
		c.next = c.readState
		return nil
	}
	c.nodes--
	s := scan{b: c.piece, more: c.more, most: maxIncarnation(time.Now())}
	return s.object(nodeShape, nil)
}

// readState passes on what the other end tells of leader and jobs, which is checked
// where it is understood. Nothing comes after it.
func (c *checkedConn) readState() error {
	if c.state == 0 {
		return io.EOF
	}
	n := min(c.state, 1<<12)
	c.state -= n
	_, err := c.more(int(n))
	return err
}
