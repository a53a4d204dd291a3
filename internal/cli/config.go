package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
)

var configCommand = command{
	name: "config", usage: "check the configuration",
	subcommands: []command{{
		name: "check", usage: "say all that is wrong with it",
		args: "[FILE]", maxArgs: 1,
		about: `Changes nothing. Checks FILE, or what run would read here: BULLY_CONFIG, else ` + defaultConfigFile + ` if it exists; the
			BULLY_ variables of this environment count as they do for run. Prints ok and each job's next slot, or one line
			for each thing wrong, and exits 7.`,
		examples: []string{program + " config check", program + " config check ./agent.toml", program + " config check --no-host ./agent.toml"},
		options:  []option{{name: "no-host", usage: "do not compare with this host: its addresses, hooks and directories"}},
		action:   checkConfig,
	}},
}

func checkConfig(c *call) error {
	src := config.Source{Env: os.LookupEnv, Names: environNames(), Path: c.Args().First()}
	switch {
	case c.NArg() == 0:
		src.Path = configPath(c.Context)
	case src.Path == "":
		return usage("", `the name of the file is empty`)
	}
	cfg, err := config.Load(src)
	if err == nil && !c.Bool("no-host") {
		err = checkHost(cfg)
	}
	if err != nil {
		return err
	}
	text := "ok"
	if src.Path == "" {
		text += ": no file, so defaults and environment"
	}
	for _, note := range cfg.Notes {
		text += "\nnote: " + note
	}
	for _, j := range cfg.Jobs {
		text += fmt.Sprintf("\njob %s: next %s, %s", j.Name, zoned(j.Schedule.Next(time.Now()).In(j.Schedule.Zone())), j.Schedule.Zone())
	}
	return c.print(text + "\n")
}
