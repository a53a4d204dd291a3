package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/keeper"
)

// The keeper reads the configuration itself, from what was fixed when it was started: the
// flags of the agent's own command line, its variables, and the path of the file. It is
// told only when to read it again.

// keeperArgs is what a keeper is started with, of an agent that has this configuration from
// there. A keeper is in "/": paths are absolute.
func keeperArgs(cfg *config.Config, src config.Source) (args []string) {
	if path, err := filepath.Abs(src.Path); err == nil && src.Path != "" {
		args = append(args, "--config="+path)
	}
	fixed := map[string]string{"state-dir": cfg.Node.StateDir, "socket": cfg.Control.Socket}
	for _, s := range config.Settings() {
		given := src.Flags[s.Flag]
		if path := fixed[s.Flag]; path != "" {
			given = []string{path}
		}
		for _, value := range given {
			args = append(args, "--"+s.Flag+"="+value)
		}
	}
	return args
}

// keeperEnviron are the variables that may be settings.
func keeperEnviron(environ []string) (ours []string) {
	for _, v := range environ {
		if strings.HasPrefix(v, "BULLY_") {
			ours = append(ours, v)
		}
	}
	return ours
}

// runKeeper is the whole life of a keeper process.
func runKeeper() int {
	src := keeperSource(os.Args[2:])
	return keeper.Main(func() (keeper.Settings, error) {
		cfg, err := config.Load(src)
		if err != nil {
			return keeper.Settings{}, err
		}
		ac := agentConfig(cfg)
		if err := setApart(&ac, cfg.Node.User); err != nil {
			return keeper.Settings{}, err
		}
		return agent.KeeperSettings(ac), nil
	})
}

// keeperSource undoes keeperArgs. Whoever starts a keeper by hand is told so elsewhere.
func keeperSource(args []string) config.Source {
	src := config.Source{Env: os.LookupEnv, Flags: map[string][]string{}}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if name == "config" {
			src.Path = value
		} else {
			src.Flags[name] = append(src.Flags[name], value)
		}
	}
	return src
}
