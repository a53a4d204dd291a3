package hostile

import "testing"

func TestThereAreManyAndEachOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		if seen[name] {
			t.Errorf("%q is there twice", name)
		}
		seen[name] = true
	}
	if len(seen) < 200 {
		t.Errorf("%d names", len(seen))
	}
}
