package cli

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
)

var configCommand = command{
	name: "config", usage: "check or show the configuration",
	subcommands: []command{{
		name: "check", usage: "say all that is wrong with it",
		args: "[FILE]", maxArgs: 1,
		about: `Changes nothing. Checks FILE, or what run would read here: BULLY_CONFIG, else ` + defaultConfigFile + ` if it exists, or that of an instance; the
			BULLY_ variables of this environment count as they do for run. Prints ok and each job's next slot, or one line
			for each thing wrong, and exits 7.`,
		examples: []string{program + " config check", program + " config check ./agent.toml", program + " config check --no-host ./agent.toml"},
		options:  []option{{name: "no-host", usage: "do not compare with this host: its addresses, hooks and directories"}, instanceOption},
		action:   checkConfig,
	}, {
		name: "show", usage: "print each setting and where it comes from",
		about: `What run would use with the same flags, here: by the flags, the BULLY_ variables of this environment, the file, and this
			host's name and addresses. It is a configuration file that gives the same; what would say more there than was said is
			commented out. An agent that runs keeps what it was started with: status says what waits for a restart. No key is
			in it; commands of hooks and jobs are.`,
		examples: []string{program + " config show", program + " config show --config ./agent.toml --json"},
		options:  append([]option{configOption, jsonOption}, settingOptions()...),
		action:   showConfig,
	}},
}

func showConfig(c *call) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(struct {
			Settings []config.Shown    `json:"settings"`
			Jobs     []config.ShownJob `json:"jobs"`
		}{cfg.Shown(), cfg.ShownJobs()})
	}
	return c.print(cfg.TOML())
}

func checkConfig(c *call) error {
	src := c.sourceHere()
	switch {
	case c.NArg() == 0:
	case c.Args().First() == "":
		return usage("", `the name of the file is empty`)
	default:
		src.Path = c.Args().First()
	}
	cfg, err := config.Load(src)
	if err == nil && !c.Bool("no-host") {
		err = checkHost(cfg)
	}
	if err != nil {
		return err
	}
	if !c.Bool("no-host") {
		cfg.Notes = append(cfg.Notes, cfg.Beside(src.Path, config.InstanceFiles())...)
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
