package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// What every frame has in common (protocol 8).
const (
	Magic0   = 0xB7 // first byte of a frame; memberlist's messages start with 0–13 or 244
	Magic1   = 0x1E
	MinFrame = 80   // bytes of a frame with an empty body
	MaxFrame = 1200 // bytes that pass every link that IPv6 allows, tunnel included

	// Major is the version that all members of a group share. Versions 1 and 2 were
	// never released.
	Major = 3

	version     = Major << 4 // minor 0
	seatAt      = 74         // offset of the number of the leadership
	headerSize  = 76
	trailerSize = 4
)

// castagnoli selects CRC32C, for which amd64 and arm64 have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// ClusterHash is the mark by which frames of another cluster on the same LAN
// are told apart. It keeps neighbours apart and is no secret: two names
// collide by chance once in 2³² pairs, and anybody can compute it.
func ClusterHash(name string) uint32 {
	sum := sha256.Sum256([]byte("bully-agent/1\x00" + name))
	return binary.BigEndian.Uint32(sum[:4])
}

// codec moves fields between a Frame and the bytes of a body. One description
// of the bodies serves both directions, so that they cannot drift apart.
type codec struct {
	body []byte
	put  bool // from the Frame into the bytes; else the other way
}

func u8[T ~uint8](c codec, off int, v *T) {
	if c.put {
		c.body[off] = byte(*v)
		return
	}
	*v = T(c.body[off])
}

func u16(c codec, off int, v *uint16) {
	if c.put {
		binary.BigEndian.PutUint16(c.body[off:], *v)
		return
	}
	*v = binary.BigEndian.Uint16(c.body[off:])
}

func u32(c codec, off int, v *uint32) {
	if c.put {
		binary.BigEndian.PutUint32(c.body[off:], *v)
		return
	}
	*v = binary.BigEndian.Uint32(c.body[off:])
}

func u64(c codec, off int, v *uint64) {
	if c.put {
		binary.BigEndian.PutUint64(c.body[off:], *v)
		return
	}
	*v = binary.BigEndian.Uint64(c.body[off:])
}

func b16[T ~[16]byte](c codec, off int, v *T) {
	if c.put {
		copy(c.body[off:], (*v)[:])
		return
	}
	copy((*v)[:], c.body[off:])
}

// truth takes 1 alone for yes: a value that this version does not know must
// not start a hand-over.
func truth(c codec, off int, v *bool) {
	if !c.put {
		*v = c.body[off] == 1
		return
	}
	if *v {
		c.body[off] = 1
	}
}

// payload moves a text of bytes whose size is at sizeAt. Only a payload that is
// not empty allocates, when it is parsed.
func payload(c codec, sizeAt, off int, v *string) {
	if c.put {
		binary.BigEndian.PutUint16(c.body[sizeAt:], uint16(len(*v)))
		copy(c.body[off:], *v)
		return
	}
	size := int(binary.BigEndian.Uint16(c.body[sizeAt:]))
	*v = string(c.body[off : off+size])
}
