package control

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Whatever a client asks for is understood as it stands or refused with 400.
func FuzzEventsQuery(f *testing.F) {
	for _, seed := range []string{"", "since=7", "follow", "since=18446744073709551615&follow=true", "since=1;follow", "%zz", "since=1&since=2", "=", "follow=\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseEventsQuery(raw)
		if err != nil {
			var refusal *APIError
			if !errors.As(err, &refusal) || refusal.Status != 400 || refusal.Hint == "" {
				t.Fatalf("%q: %#v", raw, err)
			}
			if strings.ContainsAny(refusal.Message, "\n\x1b") {
				t.Fatalf("%q: control bytes reach the terminal: %q", raw, refusal.Message)
			}
			return
		}
		values, _ := url.ParseQuery(raw)
		for name := range values {
			if name != "since" && name != "follow" {
				t.Fatalf("%q: %q was overlooked", raw, name)
			}
		}
		again, err := parseEventsQuery(fmt.Sprintf("since=%d&follow=%v", q.since, q.follow))
		if err != nil || again != q {
			t.Fatalf("%q: %+v became %+v, %v", raw, q, again, err)
		}
	})
}

// A command's body is an object of strings, or nothing, or a refusal.
func FuzzCommandBody(f *testing.F) {
	for _, seed := range []string{"", " ", "null", "{}", `{"for":"30s"}`, `{"for":30}`, `{"a":"b"}{}`, `[`, "\xff", strings.Repeat("[", 20_000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		args, err := parseArgs(strings.NewReader(body))
		if err == nil {
			return
		}
		var refusal *APIError
		if args != nil || !errors.As(err, &refusal) || refusal.Status != 400 {
			t.Fatalf("%q: %v, %#v", body, args, err)
		}
	})
}
