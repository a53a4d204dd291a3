package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesCommitAndDate(t *testing.T) {
	stamp := &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-11-23T06:00:59Z"},
		{Key: "vcs.modified", Value: "true"},
	}}
	base := build{Go: "go1.26", Platform: "linux/arm"}
	told := base
	told.Version, told.Commit, told.Date = "1.2.3", "fedcba9876543210fedcba9876543210fedcba98", "2026-11-22T23:59:00Z"
	for name, c := range map[string]struct {
		from build
		info *debug.BuildInfo
		want string
	}{
		"by the linker alone": {told, nil, "bully-agent 1.2.3 (commit fedcba987654 of 2026-11-22 23:59 UTC, go1.26, linux/arm)"},
		"by both":             {told, stamp, "bully-agent 1.2.3 (commit fedcba987654 of 2026-11-22 23:59 UTC, go1.26, linux/arm)"},
		"by the toolchain":    {base, stamp, "bully-agent v9.9.9 (commit 0123456789ab of 2026-11-23 06:00 UTC and changes to it, go1.26, linux/arm)"},
		"by nobody":           {base, &debug.BuildInfo{}, "bully-agent (devel) (go1.26, linux/arm)"},
		"without a stamp":     {base, nil, "bully-agent (devel) (go1.26, linux/arm)"},
	} {
		if got := c.from.completed(c.info).String(); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
