package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in builds that are not made from a checkout
// (-X github.com/bully-agent/bully-agent/cli.version=1.2.3).
var version string

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
	Modified bool   `json:"modified"` // there was more in the checkout than the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "(devel)" // the toolchain's own word
	}
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}

func (b build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = fmt.Sprintf("commit %.12s, ", b.Commit)
	}
	return fmt.Sprintf("%s %s (%s%s, %s)", program, b.Version, commit, b.Go, b.Platform)
}
