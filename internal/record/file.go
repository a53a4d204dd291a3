package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// magic is a record's first line. Its number changes with the layout of the file; what
// the segments mean is Header.Schema's affair.
const magic = "bully-agent record 1\n"

const (
	markSegment = 'S'
	markEnd     = 'E'
	// maxHeader bounds the line of the Header: some thousand members.
	maxHeader = 1 << 20
)

// Header says whose record it is.
type Header struct {
	Version     string    `json:"version"` // of the program
	Schema      uint32    `json:"schema"`
	Cluster     string    `json:"cluster"`
	Self        Name      `json:"self"`
	Incarnation uint32    `json:"incarnation"`
	Nonce       uint32    `json:"nonce"` // of this life
	Members     []Name    `json:"members"`
	Now         time.Time `json:"now"`  // the Node's clock when the record was taken
	Wall        time.Time `json:"wall"` // the wall clock at that instant
}

// Name is what a member is called.
type Name struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Addr netip.AddrPort `json:"addr"`
}

// AppendHeader writes the head of a file behind dst.
func AppendHeader(dst []byte, h *Header) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic("BUG: header has no JSON form: " + err.Error())
	}
	return append(append(append(dst, magic...), line...), '\n')
}

// AppendEnd writes the end of a file with so many segments behind dst.
func AppendEnd(dst []byte, segments uint64) []byte {
	return binary.BigEndian.AppendUint32(append(dst, markEnd), uint32(segments))
}

// Record is one host's record, read from a file.
type Record struct {
	Header
	ID wire.ID
	// Flaws say what of the file cannot be replayed, a line each.
	Flaws    []string
	segments []part
}

// part is a segment's bytes, and whether they are all there.
type part struct {
	bytes []byte
	isCut bool
}

// The reasons for which nothing of a file can be replayed.
var (
	ErrNoRecord = errors.New("it is no record of bully-agent")
	ErrFormat   = errors.New("it is a record in another format")
	ErrSchema   = errors.New("the election of the version that wrote it is not this one's")
)

// Parse reads a record as far as it can be replayed. The bytes may be anything, and are
// kept. A record that it returns with ErrSchema has a Header and nothing else.
func Parse(b []byte) (*Record, error) {
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		if i := bytes.LastIndexByte([]byte(magic), ' '); len(b) > i && bytes.HasPrefix(b, []byte(magic)[:i]) {
			return nil, ErrFormat
		}
		if len(b) == 0 {
			return nil, fmt.Errorf("%w: it is empty", ErrNoRecord)
		}
		return nil, ErrNoRecord
	}
	line, rest, ok := bytes.Cut(rest, []byte{'\n'})
	r := new(Record)
	if !ok || len(line) > maxHeader || json.Unmarshal(line, &r.Header) != nil {
		return nil, fmt.Errorf("%w: its second line is damaged", ErrNoRecord)
	}
	var err error
	if r.ID, err = wire.ParseID(r.Self.ID); err != nil {
		return nil, fmt.Errorf("%w: its second line is damaged: %w", ErrNoRecord, err)
	}
	if r.Schema != Schema() {
		return r, ErrSchema
	}
	r.split(rest)
	return r, nil
}

// split finds the segments.
func (r *Record) split(b []byte) {
	size := len(b)
	flaw := func(format string, args ...any) { r.Flaws = append(r.Flaws, fmt.Sprintf(format, args...)) }
	for len(b) > 0 && b[0] == markSegment {
		if len(b) < 9 {
			break
		}
		length, sum := uint64(binary.BigEndian.Uint32(b[1:])), binary.BigEndian.Uint32(b[5:])
		b = b[9:]
		if length > uint64(len(b)) {
			r.segments = append(r.segments, part{b, true})
			flaw("cut short: it ends within segment %d", len(r.segments))
			return
		}
		body := b[:length]
		b = b[length:]
		if crc32.Checksum(body, castagnoli) != sum {
			body = nil
		}
		r.segments = append(r.segments, part{bytes: body})
		if body == nil {
			flaw("segment %d is damaged", len(r.segments))
		}
	}
	switch {
	case len(b) == 0 || b[0] == markSegment || b[0] == markEnd && len(b) < 5:
		flaw("cut short: its end is missing")
	case b[0] != markEnd:
		flaw("damaged at byte %d of %d behind the header", size-len(b), size)
	case uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(r.segments)):
		flaw("%d segments are missing", int64(binary.BigEndian.Uint32(b[1:]))-int64(len(r.segments)))
	}
}
