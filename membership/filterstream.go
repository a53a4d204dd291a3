package membership

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// maxNodes is how many members a push/pull may tell of: those that are alive, and
	// those whose ends memberlist has not forgotten yet; see lives.admit.
	maxNodes = 1 << 13

	// maxState is what else it tells: see ledgers.
	maxState = 2 + recordSize + MaxLedger

	// maxPushPull bounds a whole one, in bytes: 8,192 members of 150 bytes each, which
	// is what ours take, and a ledger.
	maxPushPull = 2 << 20

	// maxPending bounds what is being read of all push/pulls at one time, in bytes.
	// One of a large group is a tenth of it and takes milliseconds.
	maxPending = 16 << 20

	// nodeCost is what memberlist allocates for each member that a push/pull announces
	// before it has read one (pushNodeState).
	nodeCost = 112

	// maxText is the longest text in it: memberlist allocates what a length says before it has the bytes. maxFields is the most
	// that an object has.
	maxText, maxFields = 64, 7
)

// pending is what is being read of all streams together.
type pending struct{ bytes atomic.Int64 }

// checkedConn is a stream of memberlist's that carries a push/pull from the other
// end and nothing else. Each piece of it, the label, the header, a member, is read
// whole and held against its bounds before memberlist gets a byte of it.
type checkedConn struct {
	net.Conn
	filter *filter
	in     *bufio.Reader
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

// checked has a stream checked while it is read. An answer has no label.
func (f *filter) checked(conn net.Conn, hasLabel bool) *checkedConn {
	c := &checkedConn{Conn: conn, filter: f, in: bufio.NewReaderSize(conn, 1<<10)}
	if c.next = c.readHeader; hasLabel {
		c.next = c.readLabel
	}
	return c
}

// Read gives what was checked. Like any net.Conn's it is called by one reader at a
// time.
func (c *checkedConn) Read(b []byte) (int, error) {
	for len(c.ready) == 0 && len(b) > 0 {
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

// more reads n bytes behind the piece, and gives them.
func (c *checkedConn) more(n int) ([]byte, error) {
	if c.total+n > maxPushPull {
		return nil, tooLarge
	}
	if err := c.take(n); err != nil {
		return nil, err
	}
	c.total += n
	at := len(c.piece)
	c.piece = append(c.piece, make([]byte, n)...)
	_, err := io.ReadFull(c.in, c.piece[at:])
	if err == io.EOF && c.total > n {
		err = io.ErrUnexpectedEOF
	}
	return c.piece[at:], err
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
	b, err := c.more(len(c.filter.label))
	if err == nil && !bytes.Equal(b, c.filter.label) {
		err = unfit("label")
	}
	c.next = c.readHeader
	return err
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
	err = c.object(func(field string, v uint64) {
		switch field {
		case "Nodes":
			c.nodes = v
		case "UserStateLen":
			c.state = v
		}
	})
	switch {
	case err != nil:
		return err
	case c.nodes > maxNodes || c.state > maxState:
		return tooLarge
	}
	c.next = c.readNode
	return c.take(int(c.nodes)*nodeCost + int(c.state))
}

func streamKind(t byte) error {
	if t <= deadMsg || t == nackMsg {
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
	return c.object(func(string, uint64) {})
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

// object reads one object of msgpack: fields with a value each, which are texts and numbers and nothing deeper. tell is told of
// the numbers.
func (c *checkedConn) object(tell func(field string, v uint64)) error {
	b, err := c.more(1)
	if err != nil {
		return err
	}
	fields := int(b[0] & 0x0f)
	if b[0]&0xf0 != 0x80 || fields > maxFields {
		return unfit("field")
	}
	for range fields {
		field, _, err := c.value()
		if err != nil {
			return err
		}
		name := string(field)
		_, v, err := c.value()
		if err != nil {
			return err
		}
		tell(name, v)
	}
	return nil
}

// value reads a text or a number. No length is believed before it is held against maxText.
func (c *checkedConn) value() (text []byte, v uint64, err error) {
	b, err := c.more(1)
	if err != nil {
		return nil, 0, err
	}
	switch t := b[0]; {
	case t < 0x80:
		return nil, uint64(t), nil
	case t == 0xc0, t == 0xc2, t == 0xc3: // none, and flags
		return nil, 0, nil
	case t >= 0xcc && t <= 0xd3: // numbers of 1 to 8 bytes, a negative one is a very large one
		v, err = c.number(1 << (t & 3))
		return nil, v, err
	case t&0xe0 == 0xa0:
		v = uint64(t & 0x1f)
	case t == 0xd9, t == 0xc4:
		v, err = c.number(1)
	case t == 0xda, t == 0xc5:
		v, err = c.number(2)
	default:
		return nil, 0, unfit("field")
	}
	if err == nil && v > maxText {
		err = tooLarge
	}
	if err != nil {
		return nil, 0, err
	}
	text, err = c.more(int(v))
	return text, 0, err
}

// number reads one of so many bytes.
func (c *checkedConn) number(width int) (uint64, error) {
	b, err := c.more(width)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[8-width:], b)
	return binary.BigEndian.Uint64(wide[:]), nil
}
