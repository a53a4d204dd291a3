package key

import (
	"fmt"
	"strings"
	"testing"
)

// A key that finds its way into a log line must not tell its secret there.
func TestPrintingAKeyTellsItsIDOnly(t *testing.T) {
	var secret [Size]byte
	for i := range secret {
		secret[i] = byte(i)
	}
	k := Key{ID: IDOf(secret), Secret: secret}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, k); got != k.ID.String() {
			t.Errorf("%s gives %q, expected the id %s", verb, got, k.ID)
		}
		if got := fmt.Sprintf(verb, Ring{k}); !strings.Contains(got, k.ID.String()) || strings.Contains(got, "31") {
			t.Errorf("a ring under %s gives %q", verb, got)
		}
	}
}

func TestRingFinds(t *testing.T) {
	a, b := Key{ID: 1}, Key{ID: 2}
	ring := Ring{a, b}
	if got, ok := ring.Find(2); !ok || got.ID != 2 {
		t.Errorf("Find(2) gives %v, %v", got, ok)
	}
	if _, ok := ring.Find(3); ok {
		t.Error("Find(3) gives a key that is not in the ring")
	}
	if ids := ring.IDs(); len(ids) != 2 || ids[0] != 1 {
		t.Errorf("IDs gives %v, expected them in their order", ids)
	}
}
