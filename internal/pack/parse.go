package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"
)

// ErrMalformed is wrapped by what Parse returns for bytes that Append has not written.
var ErrMalformed = errors.New("malformed")

// maxInflation is how many bytes of memory one byte of input may become: a slice of
// large structs of many small fields is that much larger than its bytes.
const maxInflation = 64

// Parse reads into what v points to, and gives the bytes behind it. It takes any bytes;
// what it needs of memory is bounded by their number.
func (c Codec) Parse(b []byte, v any) (rest []byte, err error) {
	r := reader{Codec: c, left: b, room: maxInflation * (len(b) + 64)}
	r.get(reflect.ValueOf(v).Elem())
	return r.left, r.err
}

type reader struct {
	Codec
	left []byte
	room int // bytes of memory that may still be asked for
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w %s", ErrMalformed, what)
	}
	r.left = nil
}

func (r *reader) get(v reflect.Value) {
	if r.err != nil {
		return
	}
	v = open(v)
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(r.time()))
		return
	case addrType:
		var a netip.AddrPort
		if a.UnmarshalBinary([]byte(r.string())) != nil {
			r.fail("address")
		}
		v.Set(reflect.ValueOf(a))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.byte() != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := r.varint(); v.OverflowInt(n) {
			r.fail("number")
		} else {
			v.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := r.uvarint(); v.OverflowUint(n) {
			r.fail("number")
		} else {
			v.SetUint(n)
		}
	case reflect.String:
		v.SetString(r.string())
	case reflect.Slice:
		r.slice(v)
	case reflect.Array:
		r.elements(v)
	case reflect.Map:
		r.mapping(v)
	case reflect.Pointer:
		if r.byte() != 0 && r.takes(v.Type().Elem(), 1) {
			v.Set(reflect.New(v.Type().Elem()))
			r.get(v.Elem())
		}
	case reflect.Interface:
		r.variant(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("pack") != skip {
				r.get(v.Field(i))
			}
		}
	default:
		panic("BUG: pack cannot carry a " + v.Type().String())
	}
}

// takes reports whether there may be so many more of t: each takes a byte at least, and
// room in memory.
func (r *reader) takes(t reflect.Type, count uint64) bool {
	if count > uint64(len(r.left)) && t.Size() > 0 || count > uint64(r.room)/uint64(max(t.Size(), 1)) {
		r.fail("count")
		return false
	}
	r.room -= int(count) * int(t.Size())
	return true
}

func (r *reader) slice(v reflect.Value) {
	count := r.uvarint()
	if count == 0 || !r.takes(v.Type().Elem(), count) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), int(count), int(count)))
	r.elements(v)
}

func (r *reader) elements(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b := r.bytes(uint64(v.Len()))
		reflect.Copy(v, reflect.ValueOf(b))
		return
	}
	for i := range v.Len() {
		r.get(v.Index(i))
	}
}

func (r *reader) mapping(v reflect.Value) {
	count := r.uvarint()
	t := v.Type()
	if r.err != nil || !r.takes(t.Key(), count) || !r.takes(t.Elem(), count) {
		return
	}
	v.Set(reflect.MakeMap(t))
	for range count {
		key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		r.get(key)
		r.get(elem)
		if r.err != nil {
			return
		}
		v.SetMapIndex(key, elem)
	}
}

func (r *reader) variant(v reflect.Value) {
	i := r.uvarint()
	variants := r.Variants[v.Type()]
	switch {
	case i == 0:
		return
	case i > uint64(len(variants)):
		r.fail("kind of " + v.Type().Name())
		return
	}
	held := reflect.New(variants[i-1]).Elem()
	r.get(held)
	if r.err == nil && !(held.Kind() == reflect.Pointer && held.IsNil()) {
		v.Set(held)
	}
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.fail("end")
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(r.uvarint())) }

func (r *reader) uvarint() uint64 {
	u, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.left = r.left[n:]
	return u
}

func (r *reader) varint() int64 { return unzigzag(r.uvarint()) }

// time gives times in UTC, so that nothing depends on where they are read.
func (r *reader) time() time.Time {
	u := r.uvarint()
	if u == 0 {
		return time.Time{}
	}
	return time.Unix(0, r.Base+unzigzag(u-1)).UTC()
}
