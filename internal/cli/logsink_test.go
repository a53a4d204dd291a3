package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/config"
)

// pipe is a log's reader that can stand still and that can be broken.
type pipe struct {
	mu     sync.Mutex
	text   bytes.Buffer
	fail   error
	resume chan struct{} // nil: reads at once
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.resume != nil {
		<-p.resume
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return 0, p.fail
	}
	return p.text.Write(b)
}

func notice(lost uint64) []byte { return fmt.Appendf(nil, "%d lost\n", lost) }

func TestLinesArriveInOrder(t *testing.T) {
	var p pipe
	s := newLogSink(&p, notice)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		_, _ = s.Write([]byte(line))
	}
	s.close(time.Minute)
	if p.text.String() != want.String() {
		t.Errorf("got %d bytes, expected %d", p.text.Len(), want.Len())
	}
}

// Whoever logs never waits; the newest lines are kept, within bounds, and the
// number of the others is said where they are missing.
func TestAReaderThatStandsStillLosesTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipe{resume: make(chan struct{})}
		s := newLogSink(&p, notice)
		_, _ = s.Write([]byte("first\n"))
		synctest.Wait() // the goroutine stands in the write of "first"
		line := strings.Repeat("x", 1023) + "\n"
		for range sinkSize/len(line) + 10 {
			_, _ = s.Write([]byte(line))
		}
		_, _ = s.Write([]byte("last\n"))
		if s.size > sinkSize {
			t.Errorf("%d bytes wait, expected at most %d", s.size, sinkSize)
		}
		close(p.resume)
		s.close(time.Minute)
		text := p.text.String()
		if !strings.HasPrefix(text, "first\n11 lost\nxxx") || !strings.HasSuffix(text, "\nlast\n") {
			t.Errorf("got %.40q … %q", text, text[len(text)-20:])
		}
	})
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipe{resume: make(chan struct{})}
		s := newLogSink(&p, notice)
		_, _ = s.Write([]byte("line\n"))
		start := time.Now()
		s.close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("closed after %v, expected the whole patience of 1s", took)
		}
		close(p.resume)
	})
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipe{fail: errors.New("no space left on device")}
		s := newLogSink(&p, notice)
		for range 3 {
			_, _ = s.Write([]byte("line\n"))
			synctest.Wait()
		}
		p.mu.Lock()
		p.fail = nil
		p.mu.Unlock()
		_, _ = s.Write([]byte("back\n"))
		s.close(time.Minute)
		if got := p.text.String(); got != "3 lost\nback\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestLogFormats(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   config.Log
		style logStyle
		want  string
	}{
		{"text", config.Log{Level: "info", Format: "text"}, logStyle{}, " [WARN]  frame dropped: cause=crc\n"},
		{"json", config.Log{Level: "info", Format: "json"}, logStyle{colour: true}, `"@message":"frame dropped"`},
		{"journal", config.Log{Level: "info", Format: "text"}, logStyle{colour: true, journal: true}, "<4>[WARN]  frame dropped: cause=crc\n"},
		{"terminal", config.Log{Level: "info", Format: "text"}, logStyle{colour: true}, "\x1b["},
	} {
		var b bytes.Buffer
		log := newLogger(c.cfg, c.style, &b)
		log.Debug("not at this level")
		log.Warn("frame dropped", "cause", "crc")
		if got := b.String(); !strings.Contains(got, c.want) || strings.Contains(got, "not at") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %q, expected %q in it", c.name, got, c.want)
		}
		if c.name != "terminal" && strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: colours in %q", c.name, b.String())
		}
	}
	line := string(lostNotice(config.Log{Level: "error", Format: "json"}, logStyle{})(7))
	if !strings.Contains(line, `"count":7`) {
		t.Errorf("notice: got %q", line)
	}
	if newLogger(config.Log{Level: "off"}, logStyle{}, nil).GetLevel() != hclog.Off {
		t.Error("level off is not off")
	}
}
