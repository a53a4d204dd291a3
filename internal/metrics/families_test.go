package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// What is gathered here and written elsewhere is what would have been written here, to the byte, in each format.
func TestFamiliesArePassedOn(t *testing.T) {
	e := New(busy(), noon)
	for _, accept := range []string{"", "text/plain", "application/openmetrics-text; version=1.0.0",
		"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"} {
		want, wantType, err := e.Text(accept, false)
		if err != nil {
			t.Fatal(err)
		}
		families, err := e.Families(false)
		if err != nil {
			t.Fatal(err)
		}
		got, gotType, err := Text(families, accept)
		if err != nil || gotType != wantType || string(got) != string(want) {
			t.Errorf("%q: %s, %v\n%s\nwant %s\n%s", accept, gotType, err, got, wantType, want)
		}
	}
	if _, _, err := Text([]byte("nonsense"), ""); err == nil {
		t.Error("nonsense is decoded")
	}
}

// hung is a source whose disk does not answer.
type hung struct {
	*fakeAgent
	disk chan struct{}
	asks chan struct{}
}

func (h hung) RunsAfter(seq uint64) ([]control.HookRun, error) {
	h.asks <- struct{}{}
	<-h.disk
	return h.fakeAgent.RunsAfter(seq)
}

// A ledger whose disk hangs is asked once, and costs the counts of hooks: whether this host leads is told all the same. When
// the disk answers they are told as well.
func TestALedgerThatHangs(t *testing.T) {
	h := hung{busy(), make(chan struct{}), make(chan struct{}, 8)}
	e := New(h, noon)
	const counted = `bully_hook_runs_total{hook="become-leader",result="succeeded"} 1`
	began := time.Now()
	for range 2 {
		text := string(mustText(t, e))
		if !contains(text, "bully_leader 1") || contains(text, counted) {
			t.Errorf("while it hangs:\n%s", text)
		}
	}
	if took := time.Since(began); took < 2*readPatience {
		t.Errorf("the ledger was waited for %v", took)
	}
	if len(h.asks) != 1 {
		t.Errorf("asked %d times", len(h.asks))
	}
	close(h.disk)
	for late := time.Now().Add(20 * time.Second); !contains(string(mustText(t, e)), counted); {
		if time.Now().After(late) {
			t.Fatal("hooks are not counted")
		}
	}
}

func mustText(t *testing.T, e *Exporter) []byte {
	t.Helper()
	text, _, err := e.Text("", false)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func contains(text, line string) bool { return strings.Contains(text, "\n"+line+"\n") }
