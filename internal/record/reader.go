package record

import (
	"encoding/binary"
	"errors"
)

// reader consumes a segment. After a failure it gives zeros.
type reader struct {
	left []byte
	err  error
}

var errMalformed = errors.New("malformed")

// errEnd: the bytes end where more belong.
var errEnd = errors.New("cut short")

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.Join(errMalformed, errors.New(what))
	}
	r.left = nil
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.left)) {
		if r.err == nil {
			r.err = errEnd
		}
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) uvarint() uint64 {
	u, n := binary.Uvarint(r.left)
	if n <= 0 {
		if n < 0 {
			r.fail("number")
		}
		r.bytes(uint64(len(r.left)) + 1)
		return 0
	}
	r.left = r.left[n:]
	return u
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// value reads what package pack has written.
func (r *reader) value(to any) {
	if r.err != nil {
		return
	}
	rest, err := values.Parse(r.left, to)
	if err != nil {
		r.left, r.err = nil, err
		return
	}
	r.left = rest
}
