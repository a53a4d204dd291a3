package cli

import (
	"bytes"
	"io"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/config"
)

// logStyle is what the log's reader makes of it.
type logStyle struct {
	colour  bool
	journal bool // systemd-journald: it has the time, and takes the level as a prefix
}

func (c *console) logStyle() logStyle {
	isJournal, err := journal.StderrIsJournalStream()
	return logStyle{colour: c.errColour, journal: err == nil && isJournal}
}

// newLogger logs to out, which must not block.
func newLogger(cfg config.Log, style logStyle, out io.Writer) hclog.Logger {
	out = visibleWriter{out, style.colour}
	options := &hclog.LoggerOptions{Level: hclog.LevelFromString(cfg.Level), Output: out, JSONFormat: cfg.Format == "json"}
	switch {
	case options.JSONFormat:
	case style.journal:
		options.DisableTime = true
		options.Output = journalWriter(out)
	case style.colour:
		options.Color = hclog.ForceColor
	}
	return hclog.New(options)
}

// journalWriter puts syslog's priority before each line (sd-daemon(3)).
func journalWriter(out io.Writer) io.Writer {
	return hclog.NewLeveledWriter(prefixed{out, "<6>"}, map[hclog.Level]io.Writer{
		hclog.Error: prefixed{out, "<3>"},
		hclog.Warn:  prefixed{out, "<4>"},
		hclog.Debug: prefixed{out, "<7>"},
		hclog.Trace: prefixed{out, "<7>"},
	})
}

// prefixed writes each call as one line with a prefix.
type prefixed struct {
	out    io.Writer
	prefix string
}

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.out.Write(append([]byte(p.prefix), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// lostNotice makes the line that says how many are missing, in the log's own
// format, whatever its level.
func lostNotice(cfg config.Log, style logStyle) func(lost uint64) []byte {
	cfg.Level = "warn"
	return func(lost uint64) []byte {
		var line bytes.Buffer
		newLogger(cfg, style, &line).Warn("log lines lost: its reader stood still", "count", lost)
		return line.Bytes()
	}
}
