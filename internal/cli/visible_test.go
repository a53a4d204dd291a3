package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/test/hostile"
)

// isHarmless: nothing in the text is an order to a terminal, or cannot be seen.
func isHarmless(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (!unicode.IsPrint(r) || r == utf8.RuneError)
	})
}

// fill puts s wherever v has a text.
func fill(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), s)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), s)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), s)
			}
		}
	}
}

func filled[T any](s string) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), s)
	return v
}

// Each command shows whatever an agent, or whoever listens in its place, says of hosts:
// as text, as JSON, with colours and without. The log writes it, in both formats, and
// an error names it.
func TestCase46_47_HostileNamesAreShownSafely(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, name := range hostile.Names() {
		var out, errs bytes.Buffer
		c := &console{out: &out, err: &errs}
		shown := map[string]string{
			"members": c.membersText([]control.Member{filled[control.Member](name)}),
			"status":  c.statusText(filled[control.Status](name), now),
			"history": historyText(name, []control.Leadership{filled[control.Leadership](name)}, now),
			"events":  eventText(filled[control.Event](name)),
			"hooks":   c.hooksText([]control.HookSetting{filled[control.HookSetting](name)}, now),
			"runs":    c.runsText([]control.HookRun{filled[control.HookRun](name)}),
			"run":     c.runText(filled[control.HookRun](name)),
			"jobs":    c.jobsText([]control.Job{filled[control.Job](name)}, true, now),
			"jobruns": runsText([]control.JobRun{filled[control.JobRun](name)}),
			"reload":  c.waitingText([]control.Waiting{filled[control.Waiting](name)}),
			"leader":  name + "\n",
		}
		for command, text := range shown {
			out.Reset()
			if err := c.print(text); err != nil || !isHarmless(out.String()) {
				t.Errorf("%s of %q: %q, %v", command, name, out.String(), err)
			}
		}
		for _, v := range []any{filled[control.Member](name), filled[control.Status](name), filled[control.Event](name), filled[control.JobRun](name)} {
			out.Reset()
			if err := c.printJSON(v); err != nil || !isHarmless(out.String()) || !json.Valid(out.Bytes()) {
				t.Errorf("JSON of %q: %q, %v", name, out.String(), err)
			}
		}
		c.report(&failure{code: exitNo, err: errorText(name), hint: name})
		if !isHarmless(errs.String()) {
			t.Errorf("the error of %q: %q", name, errs.String())
		}
		for _, format := range []string{"text", "json"} {
			for _, style := range []logStyle{{}, {journal: true}} {
				out.Reset()
				log := newLogger(config.Log{Level: "info", Format: format}, style, &out)
				log.Info("became leader", "member", name, "cause", name)
				if !isHarmless(out.String()) {
					t.Errorf("%s log of %q: %q", format, name, out.String())
				}
				for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
					if i > 0 && !strings.HasPrefix(line, "  ") {
						t.Errorf("%s log of %q begins a line of its own: %q", format, name, line)
					}
				}
				if format == "json" && !json.Valid(out.Bytes()) {
					t.Errorf("the log of %q is no JSON: %q", name, out.String())
				}
			}
		}
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }

// Colours are the program's own, and all else about a text stays as it is.
func TestVisible(t *testing.T) {
	for _, c := range []struct {
		text, plain, coloured string
	}{
		{"alpha  leads\n\tß 🙂", "alpha  leads\n\tß 🙂", "alpha  leads\n\tß 🙂"},
		{"\x1b[31mno\x1b[0m", `\u001b[31mno\u001b[0m`, "\x1b[31mno\x1b[0m"},
		{"\x1b[2J", `\u001b[2J`, `\u001b[2J`},
		{"a\u202eb\xff\U000e0001", `a\u202eb\xff\udb40\udc01`, `a\u202eb\xff\udb40\udc01`},
		{"\u009b31m\r\x00", `\u009b31m\u000d\u0000`, `\u009b31m\u000d\u0000`},
	} {
		if got := visible(c.text, false); got != c.plain {
			t.Errorf("%q: %q", c.text, got)
		}
		if got := visible(c.text, true); got != c.coloured {
			t.Errorf("%q in colour: %q", c.text, got)
		}
	}
}
