package agent

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "less than a second", 0: "less than a second", 100 * time.Millisecond: "less than a second", 949 * time.Millisecond: "less than a second",
		950 * time.Millisecond: "1s", 3140 * time.Millisecond: "3.1s", time.Minute: "1m0s",
	} {
		if got := pause(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
