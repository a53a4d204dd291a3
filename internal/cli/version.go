package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// What make dist tells the linker (-X github.com/bully-agent/bully-agent/internal/cli.version=1.2.3), since a
// reproducible build takes nothing from a checkout by itself. Each is "" in other builds: then the toolchain's stamp
// says it, where there is one.
var (
	version string
	commit  string // the commit's hash
	date    string // when that commit was made: RFC 3339, UTC
)

var versionCommand = command{
	name: "version", usage: "print the version",
	examples: []string{program + " version", program + " version --json"},
	options:  []option{jsonOption},
	action: func(c *call) error {
		b := thisBuild()
		if c.Bool("json") {
			return c.printJSON(b)
		}
		return c.print(b.String() + "\n")
	},
}

// build says what this binary was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" when it is not known
	Date     string `json:"date"`     // of the commit, RFC 3339 in UTC; "" when it is not known
	Modified bool   `json:"modified"` // there was more in the checkout than the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	told := build{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, _ := debug.ReadBuildInfo()
	return told.completed(info)
}

// completed fills in from the toolchain's stamp what the linker was not told. A commit of the one is never beside a
// date of the other.
func (b build) completed(info *debug.BuildInfo) build {
	if info != nil {
		b.Version = cmp.Or(b.Version, info.Main.Version)
	}
	b.Version = cmp.Or(b.Version, "(devel)") // the toolchain's own word
	if info == nil || b.Commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is one line: the commit's first digits and the day and minute of it, if they are known.
func (b build) String() string {
	made := ""
	if b.Commit != "" {
		made = fmt.Sprintf("commit %.12s", b.Commit)
		if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
			made += " of " + at.UTC().Format("2006-01-02 15:04 UTC")
		}
		if b.Modified {
			made += " and changes to it"
		}
		made += ", "
	}
	return fmt.Sprintf("%s %s (%s%s, %s)", program, b.Version, made, b.Go, b.Platform)
}
