package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/flynn/noise"
)

// Both private keys of an end give the bytes that Noise's own curve gives, by the same bytes of chance. They refuse a public key of low
// order as that does, and take one that is not in its own form.
func TestTheCurveIsNoises(t *testing.T) {
	scalar := testScalar(1)
	chance := func() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{7}) }
	ours := &pairs{make: X25519, static: testHosts[1].private}
	made, err := ours.GenerateKeypair(chance())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := noise.DH25519.GenerateKeypair(chance())
	if err != nil || !bytes.Equal(made.Public, theirs.Public) {
		t.Fatalf("the ephemeral keys are %x and %x, %v", made.Public, theirs.Public, err)
	}
	for _, c := range []struct {
		name         string
		which, bytes []byte
	}{{"ephemeral", made.Private, theirs.Private}, {"static", testHosts[1].pair().Private, scalar[:]}} {
		for _, public := range publics {
			got, errOurs := ours.DH(c.which, public.bytes)
			want, errTheirs := noise.DH25519.DH(c.bytes, public.bytes)
			if !bytes.Equal(got, want) || (errOurs == nil) != (errTheirs == nil) || (errOurs == nil) != public.isTaken {
				t.Errorf("%s with %s: %x, %v; want %x, %v", c.name, public.name, got, errOurs, want, errTheirs)
			}
		}
	}
}

// fromP is the prime of the curve and some more, least byte first.
func fromP(more byte) []byte {
	b := bytes.Repeat([]byte{0xff}, keySize)
	b[0], b[keySize-1] = 0xed+more, 0x7f
	return b
}

func withHighBit(b []byte) []byte {
	b = bytes.Clone(b)
	b[keySize-1] |= 0x80
	return b
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

var publics = []struct {
	name    string
	bytes   []byte
	isTaken bool
}{
	{"another host's", testHosts[2].public, true},
	{"another host's with bit 255", withHighBit(testHosts[2].public), true},
	{"p+2, which is 2", fromP(2), true},
	{"2^255-1, which is 18", fromP(18), true},
	{"2^256-1, which is 18", withHighBit(fromP(18)), true},
	{"0, of order 2", make([]byte, keySize), false},
	{"0 with bit 255", withHighBit(make([]byte, keySize)), false},
	{"1, of order 4", []byte{1, 31: 0}, false},
	{"of order 8", unhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"), false},
	{"the other of order 8", unhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"), false},
	{"p-1, of order 4 on the twist", append([]byte{0xec}, fromP(0)[1:]...), false},
	{"p, which is 0", fromP(0), false},
	{"p+1, which is 1", fromP(1), false},
	{"p+1 with bit 255", withHighBit(fromP(1)), false},
	{"a byte short", make([]byte, keySize-1), false},
	{"a byte long", append(bytes.Clone(testHosts[2].public), 0), false},
}

// An end that has not made its ephemeral key, or is asked for a key that nobody has, refuses.
func TestTheCurveTakesNoKeyForAnother(t *testing.T) {
	scalar := testScalar(1)
	c := &pairs{make: X25519, static: testHosts[1].private}
	for _, which := range []string{ofEphemeral, "", "S", ofStatic + ofEphemeral, string(scalar[:])} {
		if got, err := c.DH([]byte(which), testHosts[2].public); !errors.Is(err, errNoPrivateKey) {
			t.Errorf("%q gives %x, %v", which, got, err)
		}
	}
}

// Of the 32 bytes that a private key is made of no copy stays with whoever has it made.
func TestPrivateBytesAreCleared(t *testing.T) {
	var seen []*[keySize]byte
	spy := func(raw *[keySize]byte) (CurveKey, error) {
		if *raw == ([keySize]byte{}) {
			t.Error("a key is made of zeros")
		}
		seen = append(seen, raw)
		return X25519(raw)
	}
	host := newHostKey(spy, testPrivate(1), 1, [8]byte{})
	end := &pairs{make: spy, static: host.private}
	if _, err := end.GenerateKeypair(rand.NewChaCha8([32]byte{7})); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 {
		t.Fatalf("%d keys are made", len(seen))
	}
	for i, raw := range seen {
		if *raw != ([keySize]byte{}) {
			t.Errorf("the bytes of key %d stay", i+1)
		}
	}
}

// BenchmarkCall is what INIT costs: one curve. Most calls of a host whose link is cut end with it.
func BenchmarkCall(b *testing.B) {
	k, rng := newSecret(testKey(1)), rand.NewChaCha8([32]byte{1})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := newCall(nil, rng, k, scope{"home", at(1)}, kindDatagrams, 1, testHosts[9], cookie{}); err != nil {
			b.Fatal(err)
		}
	}
}
