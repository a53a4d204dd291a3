package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
)

// jobsOf loads a file and gives its jobs.
func jobsOf(t *testing.T, text string) []Job {
	t.Helper()
	return mustLoad(t, Source{Path: writeFile(t, text)}, alpha()).Jobs
}

func TestJobAsWritten(t *testing.T) {
	all := jobsOf(t, `
[[job]]
name = "backup"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
command = ["/usr/local/bin/backup", "--all"]
timeout = "2h"
overlap = "replace"
missed = "once"
starting-deadline = "6h"
retries = 3
retry_delay = "1m"
on_loss = "finish"

[[job]]
name = "tidy"
schedule = "@hourly"
command = "find /tmp -mtime +9 -delete"
[log]
level = "debug"
`)
	if len(all) != 2 {
		t.Fatalf("%d jobs, want 2", len(all))
	}
	j := all[0]
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := jobs.ParseSchedule("30 2 * * *", "backup", berlin)
	if err != nil {
		t.Fatal(err)
	}
	if j.Schedule.Hash() != schedule.Hash() {
		t.Errorf("schedule %v in %v", j.Schedule, j.Schedule.Zone())
	}
	j.Schedule = jobs.Schedule{}
	want := jobs.Job{Name: "backup", Timeout: 2 * time.Hour, Overlap: jobs.OverlapReplace, Missed: jobs.MissedOnce,
		StartingDeadline: 6 * time.Hour, Retries: 3, RetryDelay: time.Minute, OnLoss: jobs.OnLossFinish}
	if got := fmt.Sprintf("%+v", j.Job); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if j.Command.String() != `["/usr/local/bin/backup", "--all"]` {
		t.Errorf("command %v", j.Command)
	}
	// What is left out has package jobs' defaults, which are its zero values.
	j = all[1]
	j.Schedule = jobs.Schedule{}
	if got := fmt.Sprintf("%+v", j.Job); got != fmt.Sprintf("%+v", jobs.Job{Name: "tidy"}) {
		t.Errorf("a job with defaults is %s", got)
	}
	if j.Command.Shell == "" {
		t.Error("a string is no line for the shell")
	}
}

// A job's own zone comes before that of all jobs, wherever that comes from; without either it is UTC.
func TestZoneOfAJob(t *testing.T) {
	const text = "[[job]]\nname = \"a\"\nschedule = \"@daily\"\ncommand = \"true\"\n" +
		"[[job]]\nname = \"b\"\nschedule = \"@daily\"\ncommand = \"true\"\ntimezone = \"Asia/Tokyo\"\n"
	for _, tt := range []struct{ file, env, want string }{
		{text, "", "UTC Asia/Tokyo"},
		{"timezone = \"Europe/Berlin\"\n" + text, "", "Europe/Berlin Asia/Tokyo"},
		{"timezone = \"Europe/Berlin\"\n" + text, "America/Santiago", "America/Santiago Asia/Tokyo"},
	} {
		c := mustLoad(t, Source{Path: writeFile(t, tt.file), Env: environment("BULLY_TIMEZONE", tt.env)}, alpha())
		if got := fmt.Sprint(c.Jobs[0].Schedule.Zone(), " ", c.Jobs[1].Schedule.Zone()); got != tt.want {
			t.Errorf("zones %s, want %s", got, tt.want)
		}
	}
}

// The command must be there when the configuration is read, as a hook must.
func TestCheckHostLooksAtTheCommandsOfJobs(t *testing.T) {
	for name, tt := range map[string]struct{ command, want string }{
		"there":        {`["DIR/become", "now"]`, ""},
		"of the shell": {`"sleep 1 && DIR/missing"`, ""},
		"missing":      {`["DIR/missing"]`, `FILE:4:11: job.command: "DIR/missing" does not exist: expected a program`},
		"not executable": {`"DIR/plain -v"`, `FILE:4:11: job.command: "DIR/plain" is not executable (mode 0644): ` +
			`expected a program; hint: chmod +x DIR/plain`},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := onDisk(t, nil)
			text := "[[job]]\nname = \"a\"\nschedule = \"@daily\"\ncommand = " + strings.ReplaceAll(tt.command, "DIR", dir) + "\n"
			file := writeFile(t, text)
			c := mustLoad(t, Source{Path: file,
				Flags: map[string][]string{"state-dir": {dir}, "socket": {filepath.Join(dir, "agent.sock")}, "insecure": {"true"}}}, alpha())
			got := ""
			if err := c.checkHost(alpha()); err != nil {
				got = strings.ReplaceAll(strings.ReplaceAll(err.Error(), file, "FILE"), dir, "DIR")
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMoreJobsThanThereMayBe(t *testing.T) {
	var b strings.Builder
	for i := range jobs.MaxJobs + 1 {
		fmt.Fprintf(&b, "[[job]]\nname = \"j%d\"\nschedule = \"@daily\"\ncommand = \"true\"\n", i)
	}
	path := writeFile(t, b.String())
	_, err := load(Source{Path: path}, alpha())
	want := fmt.Sprintf("%s:%d:3: job: it is the 129th job: expected at most 128", path, 4*jobs.MaxJobs+1)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
