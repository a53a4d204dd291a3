package membership

import (
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// What a member says of its maintenance arrives as it was said, and what no operator could
// have given as a reason is refused with the whole meta.
func TestMaintenanceInMeta(t *testing.T) {
	self := Member{ID: wire.ID{1}, Name: "alpha", WireMin: 1, WireMax: 1, InMaintenance: true, Reason: "kernel upgrade"}
	whole := appendMeta(nil, self, 7)
	m, _, err := parseMeta(whole)
	if err != nil || !m.InMaintenance || m.Reason != self.Reason {
		t.Fatalf("read %+v, error %v", m, err)
	}
	self.Reason = ""
	if m, _, err := parseMeta(appendMeta(nil, self, 7)); err != nil || !m.InMaintenance || m.Reason != "" {
		t.Errorf("without a reason: %+v, error %v", m, err)
	}
	self.InMaintenance = false
	if m, _, err := parseMeta(appendMeta(nil, self, 7)); err != nil || m.InMaintenance {
		t.Errorf("without maintenance: %+v, error %v", m, err)
	}
	if _, _, err := parseMeta(whole[:len(whole)-1]); err == nil {
		t.Error("taken though its reason is cut off")
	}
	for _, reason := range []string{"a\x1b[2Jb", "a\nb", "\u202egarb", "$(reboot)", "`id`", " x", "x ", "<b>", strings.Repeat("x", MaxReason+1)} {
		if CheckReason(reason) == nil {
			t.Errorf("%q is a reason", reason)
		}
		bad := append([]byte(nil), whole[:len(whole)-1-len("kernel upgrade")]...)
		bad = append(append(bad, byte(1+len(reason))), reason...)
		if _, _, err := parseMeta(bad); err == nil {
			t.Errorf("%q is taken from gossip", reason)
		}
	}
}
