package session

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/flynn/noise"
)

// Both ends come to the bytes that Noise's own curve gives, by the same bytes of chance, and refuse a key of low order as that does.
func TestTheCurveIsNoises(t *testing.T) {
	chance := func() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{7}) }
	ours := &curve{static: testHosts[1].private}
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
	}{{"ephemeral", made.Private, theirs.Private}, {"static", testHosts[1].pair().Private, testHosts[1].private.Bytes()}} {
		for _, public := range [][]byte{testHosts[2].public, make([]byte, keySize), {1, 31: 0}, make([]byte, keySize-1)} {
			got, errOurs := ours.DH(c.which, public)
			want, errTheirs := noise.DH25519.DH(c.bytes, public)
			if !bytes.Equal(got, want) || (errOurs == nil) != (errTheirs == nil) {
				t.Errorf("%s with %x: %x, %v; want %x, %v", c.name, public, got, errOurs, want, errTheirs)
			}
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
