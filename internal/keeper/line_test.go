package keeper

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// logged is what a log shows, as text or as JSON.
func logged(isJSON bool, write func(hclog.Logger)) string {
	var b bytes.Buffer
	write(hclog.New(&hclog.LoggerOptions{Output: &b, JSONFormat: isJSON, DisableTime: true}))
	return b.String()
}

// throughAMessage is a line as it comes to the agent.
func throughAMessage(t *testing.T, l *line) *line {
	t.Helper()
	var came line
	if err := sidecar.Decode(sidecar.Encode(l), &came); err != nil {
		t.Fatal(err)
	}
	return &came
}

func TestALineLooksTheSameInTheAgentsLog(t *testing.T) {
	values := []any{"epoch", uint64(1<<63 + 1), "took", 1500 * time.Millisecond, "ok", true, "n", -7, "share", 0.25,
		"err", errors.New("exit status 1"), "text", "two words"}
	met := toLine("hooks", hclog.Warn, "hook failed", values)
	came := throughAMessage(t, met)
	for _, isJSON := range []bool{false, true} {
		want := logged(isJSON, func(log hclog.Logger) { log.Named("hooks").Warn("hook failed", values...) })
		for from, l := range map[string]*line{"the keeper": met, "a message": came} {
			if got := logged(isJSON, l.write); got != want {
				t.Errorf("from %s, JSON %t:\ngot  %s\nwant %s", from, isJSON, got, want)
			}
		}
	}
}

// What no message can hold is told in words.
func TestALineOfOddValues(t *testing.T) {
	l := throughAMessage(t, toLine("", hclog.Warn, "odd", []any{"nothing", nil, "endless", math.Inf(1), "list", []int{1}}))
	if got := logged(false, l.write); !strings.Contains(got, `nothing=nil endless="+Inf" list=[1]`) {
		t.Errorf("it says %s", got)
	}
}
