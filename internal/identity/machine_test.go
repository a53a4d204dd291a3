package identity

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestVectorsOfMachines(t *testing.T) {
	for _, v := range vectors(t, "machine") {
		for _, end := range []string{"", "\n"} {
			if got := MachineOf([]byte(v[0] + end)); hex.EncodeToString(got[:]) != v[1] {
				t.Errorf("%q gives %x, want %s", v[0]+end, got, v[1])
			}
		}
	}
}

// A machine without a machine-id is not told from others.
func TestNoMachineID(t *testing.T) {
	const id = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	for what, text := range map[string]string{
		"no file, or an empty one": "", "a line break": "\n", "an image of a host": "uninitialized\n", "zeros": strings.Repeat("0", 32) + "\n",
		"a digit too few": id[1:], "a digit too many": id + "0", "capitals": strings.ToUpper(id), "dashes": "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
		"no digit": "g" + id[1:], "two lines": id + "\n\n",
	} {
		if m := MachineOf([]byte(text)); !m.IsZero() {
			t.Errorf("%s: %q gives %x", what, text, m)
		}
	}
}

func TestAnotherMachine(t *testing.T) {
	none, a, b := Machine{}, Machine{1}, Machine{2}
	if !a.IsAnother(b) || a.IsAnother(a) || a.IsAnother(none) || none.IsAnother(a) || none.IsAnother(none) {
		t.Error("machines are compared otherwise")
	}
}
