package hooks

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestStrings(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Command{}.String(), "none"},
		{Command{Shell: "logger hi"}.String(), "logger hi"},
		{Command{Argv: []string{"/bin/x", "a b"}}.String(), `["/bin/x" "a b"]`},
		{Result{Kind: BecomeLeader, Epoch: 7, OK: true}.String(), "become-leader of epoch 7: nothing ran"},
		{Result{Kind: BecomeLeader, Epoch: 7, OK: true, Ran: true, Took: 1500 * time.Microsecond}.String(), "become-leader of epoch 7: done in 2ms"},
		{Result{Kind: LoseLeadership, Epoch: 7, Ran: true, Err: errors.New("exit status 1")}.String(), "lose-leadership of epoch 7: exit status 1"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// The defaults of docs/hooks.md, with a zero Config.
func TestDefaults(t *testing.T) {
	cfg := Config{}.WithDefaults()
	if cfg.Timeout != 30*time.Second || cfg.Grace != 5*time.Second {
		t.Errorf("defaults %+v", cfg)
	}
}

// A journal that was written before epochs had names of their own in it says the same.
func TestAPageOfBefore(t *testing.T) {
	var page Page
	err := json.Unmarshal([]byte(`{"owed":{"Counter":7,"Owner":"a"},"done":{"epoch":{"Counter":6,"Owner":"b"},"ran":true,"took":1}}`), &page)
	if err != nil || page.Owed == nil || *page.Owed != (Epoch{7, "a"}) || page.Done.Epoch != (Epoch{6, "b"}) {
		t.Errorf("read %+v, %v", page, err)
	}
}
