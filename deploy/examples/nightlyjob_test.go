package examples

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/jobs"
)

// nightly is the schedule of the example.
func nightly(t *testing.T) jobs.Schedule {
	t.Helper()
	loaded, err := config.Load(config.Source{Path: filepath.Join("nightly-job", "agent.toml")})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Jobs) != 1 {
		t.Fatalf("%d jobs are configured, expected one", len(loaded.Jobs))
	}
	return loaded.Jobs[0].Schedule
}

// Each night has one slot, also those in which the clock is set: the table of the README is what the configuration says.
func TestNightsWhenTheClockChanges(t *testing.T) {
	schedule := nightly(t)
	// | 28 March 2026 | 02:30 CET | 01:30 |
	rows := regexp.MustCompile(`(?m)^\| (\d+ \w+ \d{4}) \| (\d\d:\d\d CES?T).*\| (\d\d:\d\d) \|$`)
	nights := rows.FindAllStringSubmatch(read(t, filepath.Join("nightly-job", "README.md")), -1)
	if len(nights) < 6 {
		t.Fatalf("the README shows %d nights, expected at least 6", len(nights))
	}
	for _, night := range nights {
		noon, err := time.ParseInLocation("2 January 2006", night[1], schedule.Zone())
		if err != nil {
			t.Fatal(err)
		}
		slot := schedule.Next(noon.Add(-12 * time.Hour)) // of the day before
		if got := slot.In(schedule.Zone()).Format("2 January 2006|15:04 MST"); got != night[1]+"|"+night[2] {
			t.Errorf("%s: the slot is %s, expected %s", night[1], got, night[2])
		}
		if got := slot.UTC().Format("15:04"); got != night[3] {
			t.Errorf("%s: the slot is %s UTC, expected %s", night[1], got, night[3])
		}
		if next := schedule.Next(slot); next.Sub(slot) < 22*time.Hour {
			t.Errorf("%s: a second slot at %v", night[1], next)
		}
	}
}

// What the agent prints is the same schedule, for the nights of a year, whichever these are.
func TestNextNights(t *testing.T) {
	t.Parallel()
	alpha := newNightly(t, t.TempDir())
	out, code := alpha.cli("jobs", "next", "--count", "370", "--json", "backup")
	if code != 0 {
		t.Fatalf("jobs next: exit code %d\n%s", code, out)
	}
	var nights []struct{ Slot time.Time }
	if err := json.Unmarshal([]byte(out), &nights); err != nil || len(nights) != 370 {
		t.Fatalf("jobs next gives %d nights, expected 370 (%v)", len(nights), err)
	}
	schedule := nightly(t)
	for i, night := range nights[1:] {
		if want := schedule.Next(nights[i].Slot); !night.Slot.Equal(want) {
			t.Errorf("after %v comes %v, expected %v", nights[i].Slot, night.Slot, want)
		}
	}
}

// newNightly starts a lone agent with the example's configuration, whose backup goes to target. The source is a
// directory with one file.
func newNightly(t *testing.T, target string) *agent {
	t.Helper()
	path := installed(t, "nightly-job", "/usr/local/bin")
	source := t.TempDir()
	write(t, filepath.Join(source, "hosts"), "127.0.0.1 localhost\n", 0o600)
	places := strings.NewReplacer(`"/etc"`, `"`+source+`"`, "/srv/backup", target)
	write(t, path, places.Replace(read(t, path)), 0o600)
	alpha := newAgents(t, path, nil, "alpha")[0]
	alpha.env = append(alpha.env, "BULLY_EXPECT=0") // it is alone
	alpha.start()
	alpha.leads()
	return alpha
}

// The whole of the example but the night: the run that is asked for by hand ends well, and its archive is there.
func TestJobRuns(t *testing.T) {
	t.Parallel()
	tool(t, "tar")
	s := newShared(t, "")
	alpha := newNightly(t, s.dir)
	s.beginAnew(alpha)
	if out, code := alpha.cli("jobs", "run", "backup"); code != 0 {
		t.Fatalf("jobs run: exit code %d\n%s", code, out)
	}
	eventually(t, "the run has succeeded", func() bool {
		out, _ := alpha.cli("jobs", "history", "backup")
		return strings.Contains(out, "succeeded")
	})
	if names := s.holds(); len(names) != 1 || !strings.HasSuffix(names[0], "Z.tar.gz") {
		t.Errorf("the directory holds %q, expected one archive", names)
	}
}

// backup runs the script for one slot in an early leadership, with its fence begun.
func backup(t *testing.T, target, epoch string) (output string, code int) {
	t.Helper()
	source := t.TempDir()
	write(t, filepath.Join(source, "hosts"), "127.0.0.1 localhost\n", 0o600)
	script := exec.Command("./nightly-job/backup", source, target)
	slot := "BULLY_JOB_SLOT=2026-10-25T00:30:00Z"
	return outcome(t, script, environ(nil, "BULLY_EPOCH="+epoch, "BULLY_EPOCH_OWNER=0b6c7f52", slot))
}

// Another attempt for the same night replaces its file, and a leader that has ended leaves it alone.
func TestBackupIsPublished(t *testing.T) {
	t.Parallel()
	tool(t, "tar")
	s := newShared(t, "")
	archive := filepath.Join(s.dir, "2026-10-25T00:30:00Z.tar.gz")
	for _, attempt := range []struct {
		epoch string
		code  int
	}{{"7", 0}, {"7", 0}, {"8", 0}, {"7", 6}} {
		if out, code := backup(t, s.dir, attempt.epoch); code != attempt.code {
			t.Fatalf("epoch %s: exit code %d, expected %d\n%s", attempt.epoch, code, attempt.code, out)
		}
		if names := s.holds(); len(names) != 1 || names[0] != filepath.Base(archive) {
			t.Fatalf("the directory holds %q, expected one archive", names)
		}
	}
	out, code := outcome(t, exec.Command("tar", "-tzf", archive, "--force-local"), environ(nil))
	if code != 0 || !strings.Contains(out, "./hosts") {
		t.Errorf("the archive cannot be read or is not of the source: exit code %d\n%s", code, out)
	}
}
