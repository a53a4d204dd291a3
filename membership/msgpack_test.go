package membership

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// object encodes pairs of key and value as memberlist does: a map, numbers in 32
// bits, texts and bytes alike.
func object(pairs ...any) []byte {
	b := []byte{0x80 | byte(len(pairs)/2)}
	for _, v := range pairs {
		switch v := v.(type) {
		case string:
			b = appendRaw(b, []byte(v))
		case []byte:
			b = appendRaw(b, v)
		case bool:
			b = append(b, map[bool]byte{false: 0xc2, true: 0xc3}[v])
		case nil:
			b = append(b, 0xc0)
		case uint32:
			b = binary.BigEndian.AppendUint32(append(b, 0xce), v)
		case int:
			b = binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
		default:
			panic(fmt.Sprintf("no encoding for %T", v))
		}
	}
	return b
}

func appendRaw(b, v []byte) []byte {
	if len(v) < 32 {
		return append(append(b, 0xa0|byte(len(v))), v...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(v))), v...)
}

// What a field may hold and what not, at both ends of its range.
func TestFieldsAreBounded(t *testing.T) {
	fields := []field{{"N", number, 1000}, {"R", raw, 40}, {"F", flag, 0}, {"Node", nodeOrNone, 0}, {"I", incarnation, 0}}
	name := nodeName(idOf("alpha"), 0xcafe0001)
	cases := []struct {
		what string
		b    []byte
		want error
	}{
		{"nothing", object(), nil},
		{"all of it", object("N", 1000, "R", make([]byte, 40), "F", true, "Node", name, "I", 77), nil},
		{"small ones", object("F", false, "R", nil, "Node", ""), nil},
		{"a number in 7 bits", []byte{0x81, 0xa1, 'N', 5}, nil},
		{"a number in 8 bits", []byte{0x81, 0xa1, 'N', 0xcc, 200}, nil},
		{"a number in 16 bits", []byte{0x81, 0xa1, 'N', 0xcd, 3, 0xe8}, nil},
		{"a number with a sign that it does not need", []byte{0x81, 0xa1, 'N', 0xd1, 3, 0xe8}, nil},
		{"bytes as bytes", []byte{0x81, 0xa1, 'R', 0xc4, 1, 7}, nil},
		{"one too high", object("N", 1001), tooLarge},
		{"far too high", []byte{0x81, 0xa1, 'N', 0xcf, 1, 0, 0, 0, 0, 0, 0, 1}, tooLarge},
		{"below zero", []byte{0x81, 0xa1, 'N', 0xd3, 255, 255, 255, 255, 255, 255, 255, 255}, tooLarge},
		{"below zero, in short", []byte{0x81, 0xa1, 'N', 0xff}, wrongKey},
		{"an incarnation too high", object("I", 78), unfit("incarnation")},
		{"one byte too many", object("R", make([]byte, 41)), tooLarge},
		{"a length of 4 GiB", []byte{0x81, 0xa1, 'R', 0xdb, 255, 255, 255, 255}, wrongKey},
		{"a length that is not there", []byte{0x81, 0xa1, 'R', 0xd9, 40, 1}, cutShort},
		{"another key", object("X", 1), wrongKey},
		{"a key twice", object("N", 1, "N", 2), wrongKey},
		{"a long key", object(strings.Repeat("N", 200), 1), tooLarge},
		{"an array in its place", []byte{0x95, 1, 2, 3, 4, 5}, wrongKey},
		{"a map of 2^32", []byte{0xdf, 255, 255, 255, 255}, wrongKey},
		{"a map in it", []byte{0x81, 0xa1, 'R', 0x80}, wrongKey},
		{"a text for a number", object("N", "1000"), wrongKey},
		{"a number for a flag", object("F", 1), wrongKey},
		{"a name in capitals", object("Node", strings.ToUpper(name)), unfit("name")},
		{"a name with a line in it", object("Node", name[:44]+"\n"), unfit("name")},
		{"a name too long", object("Node", name+"0"), tooLarge},
	}
	for _, c := range cases {
		s := scan{b: c.b, most: 77}
		if err := s.object(fields, nil); err != c.want {
			t.Errorf("%s: %v; expected %v", c.what, err, c.want)
		}
		for n := range len(c.b) {
			s := scan{b: c.b[:n], most: 77}
			if err := s.object(fields, nil); err == nil {
				t.Errorf("%s, cut after %d of %d bytes: it passes", c.what, n, len(c.b))
			}
		}
	}
}

func TestNumbersAreGiven(t *testing.T) {
	var values [3]uint64
	s := scan{b: object("C", true, "B", 7, "A", 70000)}
	if err := s.object([]field{{"A", number, anyUint}, {"B", number, 9}, {"C", flag, 0}}, values[:]); err != nil || values != [3]uint64{70000, 7, 1} {
		t.Errorf("read %v, %v", values, err)
	}
}
