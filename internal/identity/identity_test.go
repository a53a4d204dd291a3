package identity

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// vectors gives the lines "name = value …" of a file that was made without this package, by testdata/identity/make_vectors.py.
func vectors(t testing.TB, name string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/identity/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == name && fields[1] == "=" {
			all = append(all, fields[2:])
		}
	}
	if len(all) == 0 {
		t.Fatalf("no vector is called %s", name)
	}
	return all
}

func unhex(t testing.TB, text string) [Size]byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != Size {
		t.Fatalf("%q is no key: %v", text, err)
	}
	return [Size]byte(raw)
}

func TestVectorsOfPairs(t *testing.T) {
	for _, v := range vectors(t, "pair") {
		private, public := FromBytes(unhex(t, v[0])), Public(unhex(t, v[1]))
		if got := private.Public(); got != public {
			t.Errorf("public key of %s is %x, want %x", v[0], got, public)
		}
		if got := public.ID().String(); got != v[2] {
			t.Errorf("id of %s is %s, want %s", v[1], got, v[2])
		}
		if !public.IsCanonical() {
			t.Errorf("a host would refuse %s, which follows from a private key", v[1])
		}
	}
}

func TestVectorsOfCanonicalKeys(t *testing.T) {
	for name, want := range map[string]bool{"canonical": true, "other": false} {
		for _, v := range vectors(t, name) {
			if got := Public(unhex(t, v[0])).IsCanonical(); got != want {
				t.Errorf("%s: canonical is %v, want %v", v[0], got, want)
			}
		}
	}
}

// p of RFC 7748, 4.1.
var p = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))

// number is what the bytes are, bit 255 with them.
func (k Public) number() *big.Int {
	b := slices.Clone(k[:])
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// FuzzIsCanonical: of all forms of a number the one below p is taken, and nothing else.
func FuzzIsCanonical(f *testing.F) {
	for _, name := range []string{"canonical", "other"} {
		for _, v := range vectors(f, name) {
			k := unhex(f, v[0])
			f.Add(k[:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != Size {
			return
		}
		k := Public(b)
		if got, want := k.IsCanonical(), k.number().Cmp(p) < 0; got != want {
			t.Fatalf("%x: canonical is %v, want %v", k, got, want)
		}
		if !k.IsCanonical() {
			return
		}
		k[Size-1] |= 0x80
		if k.IsCanonical() {
			t.Errorf("%x: a second form of the same number is taken", k)
		}
	})
}

func TestGenerate(t *testing.T) {
	random := bytes.NewReader(bytes.Repeat([]byte{1, 2, 3, 4}, 20))
	a, err := Generate(random)
	if err != nil || a.IsZero() || a.Bytes() != [Size]byte(bytes.Repeat([]byte{1, 2, 3, 4}, 8)) || random.Len() != 80-Size {
		t.Fatalf("made %x, error %v, %d bytes left", a.Bytes(), err, random.Len())
	}
	for text, from := range map[string]io.Reader{
		"unexpected EOF": bytes.NewReader(make([]byte, Size-1)), "EOF": bytes.NewReader(nil), "no chance": failing{},
	} {
		if k, err := Generate(from); err == nil || !k.IsZero() || err.Error() != "make a private key: "+text {
			t.Errorf("%s: made %x, error %v", text, k.Bytes(), err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no chance") }

func TestZeroIsNoKey(t *testing.T) {
	if !FromBytes([Size]byte{}).IsZero() || (Private{}).Bytes() != ([Size]byte{}) || !(Private{}).Equal(Private{}) {
		t.Error("zeros are a key")
	}
	defer func() {
		if text, _ := recover().(string); text != "BUG: the public key of no private key" {
			t.Errorf("panic is %q", text)
		}
	}()
	Private{}.Public()
}

func TestEqual(t *testing.T) {
	a := FromBytes([Size]byte{1})
	if !a.Equal(FromBytes([Size]byte{1})) || a.Equal(FromBytes([Size]byte{2})) || a.Equal(Private{}) {
		t.Error("keys are compared by something else than their bytes")
	}
}

func TestBytesAreACopy(t *testing.T) {
	raw := [Size]byte{1}
	k := FromBytes(raw)
	raw[0] = 2
	b := k.Bytes()
	b[0] = 3
	if k.Bytes() != ([Size]byte{1}) {
		t.Error("a key has changed")
	}
}

// The version tells an id of a key from one of chance.
func TestIDIsOfVersion8(t *testing.T) {
	seen := map[wire.ID]bool{}
	for i := range byte(200) {
		id := Public{i}.ID()
		if id[6]>>4 != 8 || id[8]>>6 != 2 || seen[id] {
			t.Errorf("id of key %d is %v, seen before: %v", i, id, seen[id])
		}
		seen[id] = true
	}
}

// However a key is printed, by itself or within something else, its bytes do not show.
func TestNothingShowsAPrivateKey(t *testing.T) {
	raw := [Size]byte(bytes.Repeat([]byte{0xab, 0xcd}, Size/2))
	k := FromBytes(raw)
	type deep struct {
		open   Private
		Shown  Private
		behind *Private
		list   []Private
		Any    any
	}
	values := []any{k, &k, []Private{k}, map[string]Private{"k": k}, deep{k, k, &k, []Private{k}, k}, &deep{Any: k, open: k}, fmt.Errorf("%v", k)}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%b", "%o", "%c", "%U", "%p", "%t"} {
		for _, value := range values {
			shown = append(shown, fmt.Sprintf(verb, value))
		}
	}
	for _, value := range values {
		text, _ := json.Marshal(value)
		shown = append(shown, string(text), fmt.Sprint(value), fmt.Sprintln(value))
	}
	for _, text := range shown {
		for _, secret := range []string{"abcdabcd", "ABCDABCD", "171 205", "ab cd", "0xab, 0xcd", "10101011 11001101", "253 315", "q83Nq83N"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q shows the key", text)
			}
		}
	}
	if got := fmt.Sprintf("%v %+v %#v %x", k, k, k, k); got != strings.TrimSuffix(strings.Repeat(hidden+" ", 4), " ") {
		t.Errorf("a key is shown as %q", got)
	}
}
