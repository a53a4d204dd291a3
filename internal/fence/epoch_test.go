package fence

import (
	"strings"
	"testing"
)

func TestParseEpoch(t *testing.T) {
	for text, want := range map[string]Epoch{
		"42":                   {42, ""},
		"42/0b6c-7f52":         {42, "0b6c-7f52"},
		"18446744073709551615": {1<<64 - 1, ""},
		"1/-x":                 {1, "-x"},
	} {
		if got, err := ParseEpoch(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                     "not a decimal number",
		"x":                                    "not a decimal number",
		"-1":                                   "not a decimal number",
		"+1":                                   "not a decimal number",
		"007":                                  "not a decimal number",
		"0x10":                                 "not a decimal number",
		"1 ":                                   "not a decimal number",
		"/a":                                   "not a decimal number",
		"18446744073709551616":                 "above 2^64-1",
		"0":                                    "no leadership",
		"0/a":                                  "no leadership",
		"1/":                                   "owner after / is missing",
		"1/-":                                  "owner - is none",
		"1/a/b":                                "only letters",
		"1/a b":                                "only letters",
		"1/ä":                                  "only letters",
		"1/a\n":                                "only letters",
		"1/" + strings.Repeat("a", maxOwner+1): "more than 63 bytes",
	} {
		if got, err := ParseEpoch(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v (%v), want an error with %q", text, got, err, want)
		}
	}
}

// Of two leaders a higher counter follows, whoever owns it; an equal one
// only of the same owner.
func TestFollows(t *testing.T) {
	for _, tt := range []struct {
		e, highest Epoch
		want       bool
	}{
		{Epoch{5, "a"}, Epoch{4, "b"}, true},
		{Epoch{5, "a"}, Epoch{4, "a"}, true},
		{Epoch{5, "a"}, Epoch{5, "a"}, true},
		{Epoch{5, ""}, Epoch{5, ""}, true},
		{Epoch{5, "a"}, Epoch{5, "b"}, false},
		{Epoch{5, "b"}, Epoch{5, "a"}, false},
		{Epoch{5, ""}, Epoch{5, "a"}, false},
		{Epoch{5, "a"}, Epoch{5, ""}, false},
		{Epoch{5, "a"}, Epoch{6, "a"}, false},
	} {
		if got := tt.e.follows(tt.highest); got != tt.want {
			t.Errorf("%v follows %v: %v, want %v", tt.e, tt.highest, got, tt.want)
		}
	}
}
