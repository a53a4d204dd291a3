package run

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	text := "42 (a) b) (c) S 1 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 8192 1 18446744073709551615 4096" +
		strings.Repeat(" 0", 23) + " 1000 1064 0\n"
	s, err := parseStat([]byte(text))
	if want := (Stat{State: 'S', Group: 40, Start: 123456, space: 8192, ready: true, env: 64}); err != nil || s != want {
		t.Errorf("parsed %+v (%v), want %+v", s, err, want)
	}
	for _, bad := range []string{"", "42 (a) S 1 2", strings.Replace(text, "40", "x", 1), strings.Replace(text, "123456", "x", 1), strings.Replace(text, "1064", "x", 1)} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parsed %q as %+v", bad, s)
		}
	}
}
