package pack

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

type offer interface{ is() }

type first struct{ n int }
type second struct{ inner *inner }

func (*first) is() {}
func (second) is() {}

type inner struct {
	id   [3]byte
	when map[[3]byte]time.Time
}

type whole struct {
	yes    bool
	small  int8
	large  uint64
	name   string
	at     time.Time
	took   time.Duration
	addr   netip.AddrPort
	ring   [2]inner
	list   []inner
	ref    *inner
	offers []offer
	hidden int `pack:"-"`
}

var codec = Codec{Base: 1_000_000, Variants: map[reflect.Type][]reflect.Type{
	reflect.TypeFor[offer](): {reflect.TypeFor[*first](), reflect.TypeFor[second]()},
}}

func sample() whole {
	zero := time.Unix(0, 5).UTC()
	in := inner{id: [3]byte{1, 2, 3}, when: map[[3]byte]time.Time{{9}: zero, {1}: zero.Add(time.Hour), {5}: {}}}
	return whole{yes: true, small: -5, large: 1 << 63, name: "a name", at: zero.Add(-time.Hour), took: time.Second,
		addr: netip.MustParseAddrPort("[fe80::1%eth0]:7950"), ring: [2]inner{0: in, 1: {when: map[[3]byte]time.Time{}}}, list: []inner{in, in}, ref: &in,
		offers: []offer{&first{7}, nil, second{&in}}}
}

// Everything comes back, unexported or not, except for what has the tag.
func TestAValueComesBack(t *testing.T) {
	was := sample()
	was.hidden = 3
	b := codec.Append(nil, &was)
	now := whole{hidden: 4}
	rest, err := codec.Parse(append(b, "more"...), &now)
	if err != nil || string(rest) != "more" {
		t.Fatalf("%v, left %q", err, rest)
	}
	if now.hidden != 4 {
		t.Error("what has the tag was changed")
	}
	if now.hidden = 3; !reflect.DeepEqual(was, now) {
		t.Errorf("came back as\n%+v, was\n%+v", now, was)
	}
	for range 20 { // maps have no order
		if again := sample(); !bytes.Equal(b, codec.Append(nil, &again)) {
			t.Fatal("equal values have other bytes")
		}
	}
}

// Bytes that end anywhere, or are changed anywhere, are refused or mean something else, and
// take little memory.
func TestAnyBytesMayCome(t *testing.T) {
	was := sample()
	b := codec.Append(nil, &was)
	for size := range b {
		if _, err := codec.Parse(b[:size], new(whole)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v", size, len(b), err)
		}
	}
	for i := range b {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := bytes.Clone(b)
			changed[i] ^= flip
			_, _ = codec.Parse(changed, new(whole))
		}
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x7f}
	if _, err := codec.Parse(huge, new([]inner)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a slice of 2³⁴: %v", err)
	}
}

// A schema is another one as soon as something of the types is.
func TestASchemaIsOfTheTypes(t *testing.T) {
	type a struct{ One, Two int }
	type b struct{ Two, One int }
	schema := func(v any) uint32 { return Codec{}.Schema(reflect.TypeOf(v)) }
	if schema(struct{ One, Two int }{}) == schema(struct{ Two, One int }{}) || schema(a{}) == schema(b{}) {
		t.Error("the order of fields does not count")
	}
	if schema(struct{ N int8 }{}) == schema(struct{ N int16 }{}) {
		t.Error("types of fields do not count")
	}
	if first, again := schema(sample()), schema(whole{}); first != again {
		t.Error("it is not of the types alone")
	}
}

func FuzzParse(f *testing.F) {
	was := sample()
	f.Add(codec.Append(nil, &was))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v whole
		if _, err := codec.Parse(b, &v); err != nil {
			return
		}
		again := codec.Append(nil, &v)
		var w whole
		if _, err := codec.Parse(again, &w); err != nil || !bytes.Equal(again, codec.Append(nil, &w)) {
			t.Errorf("%x became %x, which is not what it says: %v", b, again, err)
		}
	})
}
