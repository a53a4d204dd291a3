package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/flight"
)

// replayed runs replay on these records, in colour or not, and gives what it prints and
// its exit code.
func replayed(t *testing.T, isColoured bool, args ...string) (out, errors string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	con := newConsole(nil, &stdout, &stderr)
	con.outColour, con.errColour = isColoured, isColoured
	failure := newApp(con).Run(append([]string{program, "replay"}, args...))
	con.report(failure)
	return stdout.String(), stderr.String(), exitCode(failure)
}

// recorded writes the records of a flight into files alpha.rec and so on.
func recorded(t *testing.T, clocks ...time.Duration) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	for i, b := range flight.Records(clocks...) {
		files = append(files, write(t, dir, [...]string{"alpha", "beta", "gamma"}[i]+".rec", b))
	}
	return dir, files
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What a person sees of a failover on three hosts whose clocks differ: in a pipe and with
// NO_COLOR the same bytes, on a terminal with colours.
func TestReplayOfAFailover(t *testing.T) {
	_, files := recorded(t, 0, 250*time.Millisecond, -time.Minute)
	args := append([]string{"--until", "4.6s"}, files...)
	out, errors, code := replayed(t, false, args...)
	if code != 0 || errors != "" {
		t.Fatalf("exit %d: %s", code, errors)
	}
	golden(t, "replay.txt", out)
	coloured, _, _ := replayed(t, true, args...)
	golden(t, "replay-colour.txt", coloured[strings.LastIndex(coloured, "alpha, life"):])
	if strings.Contains(out, "\x1b") {
		t.Error("colours where there are none to be")
	}
	lines, _, code := replayed(t, false, append([]string{"--json"}, args...)...)
	if code != 0 {
		t.Fatalf("--json exits %d", code)
	}
	for line := range strings.Lines(lines) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("no JSON: %s", line)
		}
	}
	golden(t, "replay.json", lines)
}

// Whatever cannot be replayed is named in a line, and the rest is replayed.
func TestReplayOfWhatDoesNotFit(t *testing.T) {
	dir, files := recorded(t, 0, 0)
	alpha, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name, pattern, by string) string {
		return write(t, dir, name, regexp.MustCompile(pattern).ReplaceAll(alpha, []byte(by)))
	}
	for name, c := range map[string]struct {
		file, want string
	}{
		"cut":     {write(t, dir, "cut.rec", alpha[:len(alpha)-200]), "alpha, life 1: cut short: it ends within segment "},
		"version": {edit("version.rec", `"version":"v1.0.0","schema":\d+`, `"version":"v9.9.9","schema":1`), `version.rec: the election of the version that wrote it is not this one's (it is "v9.9.9", this is "(devel)"): left out`},
		"format":  {edit("format.rec", `record 1\n`, "record 2\n"), "format.rec: it is a record in another format: left out"},
		"none":    {write(t, dir, "none.rec", []byte("a log\n")), "none.rec: it is no record of bully-agent: left out"},
		"missing": {filepath.Join(dir, "missing.rec"), "missing.rec: no such file or directory: left out"},
		"hostile": {edit("hostile.rec", `"name":"alpha"`, `"name":"alpha\u001b[2J\nerror: all is lost"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, errors, code := replayed(t, false, files[1], c.file)
			if (code != 0) != (c.want != "") || !strings.Contains(errors, c.want) || strings.Count(errors, "\n") > 1 {
				t.Errorf("exit %d: %q, expected %q", code, errors, c.want)
			}
			if !strings.Contains(out, "beta, life 1: ") || strings.Contains(out, "\x1b") || strings.Contains(out, "all is lost") {
				t.Errorf("printed %q", out[max(0, len(out)-300):])
			}
		})
	}
	other := edit("other.rec", `"cluster":"flight"`, `"cluster":"backup"`)
	if _, errors, code := replayed(t, false, files[0], other); code != 1 || !strings.Contains(errors, `other.rec: it is of cluster "backup", and `) {
		t.Errorf("exit %d: %s", code, errors)
	}
	if _, errors, code := replayed(t, false, files[0], files[0]); code != 1 || !strings.Contains(errors, "it is of alpha, in the same life as ") {
		t.Errorf("exit %d: %s", code, errors)
	}
}

func TestReplayTakesTimesAndFiles(t *testing.T) {
	_, files := recorded(t, 0, 0)
	for _, until := range []string{"1s", "12:00:01", "2026-01-31T12:00:01Z"} {
		out, _, code := replayed(t, false, "--until", until, files[0])
		if code != 0 || strings.Contains(out, " 12:00:02.") || !strings.Contains(out, " 12:00:00.") {
			t.Errorf("--until %s exits %d and prints\n%s", until, code, out)
		}
	}
	for _, args := range [][]string{{}, {"--until", "noon", files[0]}, {"--until", "-3s", files[0]}} {
		if _, errors, code := replayed(t, false, args...); code != exitUsage || errors == "" {
			t.Errorf("%q exits %d: %s", args, code, errors)
		}
	}
}
