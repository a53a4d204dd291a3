package membership

import "encoding/binary"

// unfit is why a message of gossip is kept from memberlist, in the word that it is
// counted by.
type unfit string

func (u unfit) Error() string { return "gossip refused: " + string(u) }

const (
	cutShort unfit = "cut-short"
	wrongKey unfit = "field"
	tooLarge unfit = "too-large"
)

// fieldKind is what the value of a field may be.
type fieldKind uint8

const (
	number fieldKind = iota // most is the highest
	flag
	raw         // most is the longest, in bytes
	nodeOrNone  // the name of a node, or empty
	incarnation // see maxIncarnation
)

// field is one that memberlist v0.7.0 writes in a message.
type field struct {
	name string
	kind fieldKind
	most uint32
}

// scan goes through msgpack without keeping any of it. It knows what memberlist's
// encoder writes of the messages in shapes, maps of known fields each given once,
// and nothing else: no nesting, and no length that is believed before its bytes
// are there.
type scan struct {
	b    []byte
	at   int
	most uint32 // highest incarnation
	node []byte // the last Node, for whoever called object
	more func(n int) ([]byte, error)
}

// take gives the next n bytes. If they are not there yet, more reads so many and
// gives all that was read; without it the message is cut short.
func (s *scan) take(n int) ([]byte, error) {
	if missing := s.at + n - len(s.b); missing > 0 {
		if s.more == nil {
			return nil, cutShort
		}
		var err error
		if s.b, err = s.more(missing); err != nil {
			return nil, err
		}
	}
	s.at += n
	return s.b[s.at-n : s.at], nil
}

// object goes through one map. If values is not nil, it gets the numbers and flags,
// in the order of fields.
func (s *scan) object(fields []field, values []uint64) error {
	b, err := s.take(1)
	if err != nil {
		return err
	}
	if b[0]&0xf0 != 0x80 { // a map of at most 15
		return wrongKey
	}
	seen := 0
	for range b[0] & 0x0f {
		i, err := s.key(fields)
		if err != nil {
			return err
		}
		if seen&(1<<i) != 0 {
			return wrongKey // memberlist would take the last
		}
		seen |= 1 << i
		v, err := s.value(fields[i])
		if err != nil {
			return err
		}
		if values != nil {
			values[i] = v
		}
	}
	return nil
}

// key gives the place of the next key in fields.
func (s *scan) key(fields []field) (int, error) {
	name, err := s.raw(maxKey)
	if err != nil {
		return 0, err
	}
	for i := range fields {
		if string(name) == fields[i].name {
			return i, nil
		}
	}
	return 0, wrongKey
}

// maxKey is the longest name of a field: UserStateLen.
const maxKey = 12

func (s *scan) value(f field) (uint64, error) {
	switch f.kind {
	case flag:
		b, err := s.take(1)
		if err == nil && b[0]&^1 != 0xc2 {
			err = wrongKey
		}
		return uint64(b0(b) & 1), err
	case number:
		return s.number(f.most)
	case incarnation:
		v, err := s.number(s.most)
		if err == tooLarge {
			err = unfit("incarnation")
		}
		return v, err
	case nodeOrNone:
		name, err := s.raw(nodeNameSize)
		if err == nil && len(name) > 0 && !isNodeName(name) {
			err = unfit("name")
		}
		if f.name == "Node" {
			s.node = name
		}
		return 0, err
	}
	_, err := s.raw(f.most)
	return 0, err
}

func b0(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// number takes an integer from 0 to most, in any of the widths that the encoder has.
func (s *scan) number(most uint32) (uint64, error) {
	b, err := s.take(1)
	if err != nil {
		return 0, err
	}
	var v uint64
	width := 0
	switch c := b[0]; {
	case c < 0x80:
		v = uint64(c)
	case c >= 0xcc && c <= 0xcf: // unsigned, 1 to 8 bytes
		width = 1 << (c - 0xcc)
	case c >= 0xd0 && c <= 0xd3: // signed; one below zero is read as a very large one
		width = 1 << (c - 0xd0)
	default:
		return 0, wrongKey
	}
	if b, err = s.take(width); err != nil {
		return 0, err
	}
	if width > 0 {
		var wide [8]byte
		copy(wide[8-width:], b)
		v = binary.BigEndian.Uint64(wide[:])
	}
	if v > uint64(most) {
		return 0, tooLarge
	}
	return v, nil
}

// raw takes a text or bytes, of at most most bytes; nil is none of them.
func (s *scan) raw(most uint32) ([]byte, error) {
	b, err := s.take(1)
	if err != nil {
		return nil, err
	}
	n, width := 0, 0
	switch c := b[0]; {
	case c == 0xc0:
		return nil, nil
	case c&0xe0 == 0xa0:
		n = int(c & 0x1f)
	case c == 0xd9, c == 0xc4:
		width = 1
	case c == 0xda, c == 0xc5:
		width = 2
	default: // those of 4 bytes are of lengths that no field has
		return nil, wrongKey
	}
	if b, err = s.take(width); err != nil {
		return nil, err
	}
	for _, c := range b {
		n = n<<8 | int(c)
	}
	if uint64(n) > uint64(most) {
		return nil, tooLarge
	}
	return s.take(n)
}
