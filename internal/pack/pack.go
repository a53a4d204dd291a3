// Package pack turns a Go value into bytes and back, each field in the order in which
// its type declares it: for pictures of values that have many fields, and get more.
//
// Nobody writes down which fields there are, so none can be forgotten; Schema says
// whether two programs mean the same by them. What a type cannot or need not carry has
// the tag `pack:"-"`, and is left as it is by Parse.
//
// Numbers are varints, times are nanoseconds from a base. A nil pointer is one byte,
// maps are in the order of their keys: equal values have equal bytes.
package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Codec packs values of types that it knows the interfaces of.
type Codec struct {
	// Variants are the types that a field of an interface type may hold, by that
	// type. The order is part of the format.
	Variants map[reflect.Type][]reflect.Type
	// Base is what times are counted from, in ns since 1970.
	Base int64
}

var (
	timeType = reflect.TypeFor[time.Time]()
	addrType = reflect.TypeFor[netip.AddrPort]()
)

// skip is the tag of a field that is not packed.
const skip = "-"

// Append writes what v points to behind dst.
func (c Codec) Append(dst []byte, v any) []byte {
	return c.put(dst, reflect.ValueOf(v).Elem())
}

func (c Codec) put(dst []byte, v reflect.Value) []byte {
	v = open(v)
	switch v.Type() {
	case timeType:
		return c.putTime(dst, v.Interface().(time.Time))
	case addrType:
		b, _ := v.Interface().(netip.AddrPort).MarshalBinary() // never fails
		return putString(dst, string(b))
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(dst, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(dst, v.Uint())
	case reflect.String:
		return putString(dst, v.String())
	case reflect.Slice:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		return c.putAll(dst, v)
	case reflect.Array:
		return c.putAll(dst, v)
	case reflect.Map:
		return c.putMap(dst, v)
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, 0)
		}
		return c.put(append(dst, 1), v.Elem())
	case reflect.Interface:
		return c.putVariant(dst, v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("pack") != skip {
				dst = c.put(dst, v.Field(i))
			}
		}
		return dst
	}
	panic("BUG: pack cannot carry a " + v.Type().String())
}

// putAll writes the elements of a slice or array; bytes as they are.
func (c Codec) putAll(dst []byte, v reflect.Value) []byte {
	for i := range v.Len() {
		if e := v.Index(i); e.Kind() == reflect.Uint8 {
			dst = append(dst, byte(e.Uint()))
		} else {
			dst = c.put(dst, e)
		}
	}
	return dst
}

func (c Codec) putMap(dst []byte, v reflect.Value) []byte {
	var entries []string
	for keys := v.MapRange(); keys.Next(); {
		entries = append(entries, string(c.put(c.put(nil, addressable(keys.Key())), addressable(keys.Value()))))
	}
	slices.Sort(entries) // by key, which comes first and has one length
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}

func (c Codec) putVariant(dst []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(dst, 0)
	}
	held := v.Elem()
	i := slices.Index(c.Variants[v.Type()], held.Type())
	if i < 0 {
		panic("BUG: pack does not know that a " + v.Type().String() + " may be a " + held.Type().String())
	}
	dst = binary.AppendUvarint(dst, uint64(i)+1)
	return c.put(dst, addressable(held))
}

func putString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// putTime: zero is the zero time, all others are one more than their distance.
func (c Codec) putTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, 0)
	}
	d := t.UnixNano() - c.Base
	return binary.AppendUvarint(dst, zigzag(d)+1)
}

func zigzag(d int64) uint64   { return uint64(d)<<1 ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// addressable gives a copy that open can look into, of what is in a map or an interface.
func addressable(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	return copied
}

// open gives a field as if it were exported. A picture of a value is of all of it,
// whoever may name its parts: this is the one place that reaches past Go's rules, and it
// is for the program's own types alone.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// Schema is a hash over the shape of these types: their fields' names, kinds and order,
// and those of all that they hold. Programs with equal schemas read each other's bytes.
func (c Codec) Schema(types ...reflect.Type) uint32 {
	var b strings.Builder
	seen := map[reflect.Type]bool{}
	for _, t := range types {
		c.describe(&b, t, seen)
	}
	return crc32.ChecksumIEEE([]byte(b.String()))
}

func (c Codec) describe(b *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(b, "%s %s;", t, t.Kind())
	if seen[t] || t == timeType || t == addrType {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Array:
		fmt.Fprintf(b, "%d ", t.Len())
		c.describe(b, t.Elem(), seen)
	case reflect.Slice, reflect.Pointer:
		c.describe(b, t.Elem(), seen)
	case reflect.Map:
		c.describe(b, t.Key(), seen)
		c.describe(b, t.Elem(), seen)
	case reflect.Interface:
		for _, variant := range c.Variants[t] {
			c.describe(b, variant, seen)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("pack") != skip {
				b.WriteString(f.Name + " ")
				c.describe(b, f.Type, seen)
			}
		}
	}
}
