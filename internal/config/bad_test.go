package config

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestBadInput holds what a user reads for each mistake: testdata/bad has the input and the exact lines with the exit
// code. Its commands are
//
//	file          the body is agent.toml
//	flag NAME     the body is the flag's value
//	env NAME      the body is the variable's value
//
// and `quoted` says that the body is a Go string, for what an editor would mangle.
func TestBadInput(t *testing.T) {
	cases := 0
	datadriven.Walk(t, "testdata/bad", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			cases++
			l := newLoader(Source{}, alpha())
			if err := readCase(l, d); err != nil {
				return report(err)
			}
			d.Fatalf(t, "this is not a bad input")
			return ""
		})
	})
	if cases < 80 {
		t.Errorf("%d bad inputs, want at least 80", cases)
	}
}

// readCase loads one case of testdata as Load would, with agent.toml from the body instead of the disk.
func readCase(l *loader, d *datadriven.TestData) error {
	body := d.Input
	if d.HasArg("quoted") {
		if _, err := fmt.Sscanf(body, "%q", &body); err != nil {
			return err
		}
	}
	switch d.Cmd {
	case "file":
		return loadText(l, []byte(body))
	case "flag":
		l.src.Flags = map[string][]string{d.CmdArgs[0].Key: {body}}
	case "env":
		l.src.Env = func(name string) (string, bool) { return body, name == d.CmdArgs[0].Key }
	}
	_, err := load(l.src, l.host)
	return err
}

// loadText is load with a file that is not on disk.
func loadText(l *loader, text []byte) error {
	l.src.Path = "agent.toml"
	l.readDefaults()
	l.readDocument(text)
	l.derive()
	l.checkRules()
	return joined(l.problems)
}

// report is what the user sees: each error in a line, and the exit code.
func report(err error) string {
	var first *Error
	errors.As(err, &first)
	return fmt.Sprintf("%s\nexit %d\n", err, first.ExitCode())
}
