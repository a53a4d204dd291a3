package e2e

import (
	"context"
	"strings"
	"testing"
	"time"
)

// explain on real hosts: with words, in JSON, about another, and about nobody.
func TestExplainOnHosts(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	l.agreeOn(l.best())
	low := l.hosts[0]
	text, code := low.cli("explain")
	if code != 0 || !strings.HasPrefix(text, "h1 does not lead: h3 does, epoch ") || !strings.Contains(text, "  ok   voter, disk writes, link up\n  then h3 outranks it: priority 30 > 10\n") {
		t.Errorf("explain ends with %d and says:\n%s", code, text)
	}
	text, code = low.cli("explain", "h3")
	if code != 0 || !strings.HasPrefix(text, "h3 leads: epoch ") {
		t.Errorf("explain h3 ends with %d and says:\n%s", code, text)
	}
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"explain", "h9"}, 6}, {[]string{"explain", "--if", "kill h3"}, 2}} {
		if text, code := low.cli(c.args...); code != c.code || text != "" {
			t.Errorf("%v ends with %d and says %q, expected %d", c.args, code, text, c.code)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e, err := low.client.Explain(ctx, "")
	if err != nil || e.TakesBack != "" {
		t.Errorf("explain of h1: %+v, %v", e, err)
	}
}
