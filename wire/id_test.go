package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestIDText(t *testing.T) {
	const text = "00112233-4455-4677-8899-aabbccddeeff"
	id := mustID(t, text)
	if id.String() != text || id.Short() != "00112233" || id.IsZero() {
		t.Errorf("%s reads as %v, short %s, none %v", text, id, id.Short(), id.IsZero())
	}
	if upper := mustID(t, strings.ToUpper(text)); upper != id {
		t.Errorf("in capitals it reads as %v", upper)
	}
	if !(ID{}).IsZero() {
		t.Error("the zero ID is somebody")
	}
}

func TestParseIDRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":      "",
		"no dashes":    "00112233445546778899aabbccddeeff",
		"braces":       "{00112233-4455-4677-8899-aabbccddeeff}",
		"a dash moved": "0011223-34455-4677-8899-aabbccddeeff",
		"no hex digit": "0011223g-4455-4677-8899-aabbccddeeff",
		"too long":     "00112233-4455-4677-8899-aabbccddeeff0",
		"a sixth dash": "00112233-4455-4677-8899-aabbccd-eeff",
		"a line break": "00112233-4455-4677-8899-aabbccddeef\n",
		"no ASCII":     "00112233-4455-4677-8899-aabbccddee\u00e9",
	} {
		if id, err := ParseID(text); err != errID || !id.IsZero() {
			t.Errorf("%s: %q reads as %v, error %v", what, text, id, err)
		}
	}
}

// Unsigned bytes, the first differing one decides (CE9).
func TestIDOrder(t *testing.T) {
	ordered := []ID{{}, {15: 1}, {0: 0x7f, 15: 0xff}, {0: 0x80}, {0: 0xff}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), sign(i-j); got != want {
				t.Errorf("%v against %v: %d, want %d", a, b, got, want)
			}
		}
	}
}

// R4: the counter decides, the owner's bytes break ties.
func TestEpochOrder(t *testing.T) {
	low, high := ID{0: 1}, ID{0: 0xf0}
	ordered := []Epoch{{}, {0, low}, {1, high}, {2, low}, {2, high}, {MaxCounter, low}, {1<<64 - 1, ID{}}}
	if !slices.IsSortedFunc(ordered, Epoch.Compare) {
		t.Error("not in order")
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), sign(i-j); got != want {
				t.Errorf("%v against %v: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestEpochText(t *testing.T) {
	for want, e := range map[string]Epoch{
		"none": {}, "41/f0e0d0c0": {41, ID{0xf0, 0xe0, 0xd0, 0xc0}}, "0/01000000": {0, ID{0: 1}},
		"18446744073709551615/00000000": {Counter: 1<<64 - 1},
	} {
		if got := e.String(); got != want || e.IsZero() != (want == "none") {
			t.Errorf("got %s, none %v; want %s", got, e.IsZero(), want)
		}
	}
}

func sign(n int) int { return min(1, max(-1, n)) }
