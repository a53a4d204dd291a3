package membership

import (
	"errors"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/hostile"
	"github.com/bully-agent/bully-agent/wire"
)

// No host is admitted under a name that deceives whoever reads it, nor with such
// settings, nor with more than gossip carries.
func TestCase46_47_HostileNamesAreNotAdmitted(t *testing.T) {
	for _, name := range hostile.Names() {
		if err := CheckName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q is taken for a name: %v", name, err)
		}
		m := Member{Name: "alpha", WireMin: wire.Major, WireMax: wire.Major}
		if checkCard(m) != nil {
			t.Fatal("the good one is refused")
		}
		if m.Name = name; len(name) < 256 {
			if _, err := parseCard(appendCard(nil, m)); err == nil {
				t.Errorf("%q is admitted as a name", name)
			}
		}
		m.Name, m.Settings = "alpha", name
		if checkSettings(name) == nil || len(name) > 255 {
			continue // letters, digits, dots, dashes, underscores, = and spaces
		}
		if _, err := parseCard(appendCard(nil, m)); err == nil {
			t.Errorf("%q is admitted as settings", name)
		}
	}
}
