package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/reaper"
	"github.com/bully-agent/bully-agent/internal/rights"
	"github.com/bully-agent/bully-agent/internal/sdnotify"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/internal/trust"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// defaultConfigFile is read when it is there and no other file was named.
const defaultConfigFile = "/etc/bully-agent/agent.toml"

// logPatience bounds the wait for the log's reader when the agent has stopped.
const logPatience = time.Second

var runCommand = command{
	name: "run", usage: "run the agent in the foreground",
	about: `Settings are flags, environment variables (--foo-bar is BULLY_FOO_BAR) or keys of the configuration file, in this
		order of precedence; a few rare ones have no flag. All defaults work: without any, agents on one LAN that know one
		another by --join agree on a leader.

		Signals: TERM and INT stop cleanly (hand over, run the lose-leadership hook, leave), a second one stops at once.
		HUP reloads the configuration; an invalid one changes nothing. USR1 writes the agent's state to the log.`,
	examples: []string{
		program + " run",
		program + " run --cluster home-lab --join beta.lan,10.0.0.7 --priority 200",
		program + " run --on-become-leader 'ip addr replace 10.0.0.100/32 dev eth0' --on-lose-leadership 'ip addr del 10.0.0.100/32 dev eth0'",
		program + " run --config " + defaultConfigFile,
	},
	options: append([]option{configOption}, settingOptions()...),
	action:  runAgent,
}

var configOption = option{name: "config", value: "FILE",
	usage: "TOML file; BULLY_CONFIG names one too", fallback: defaultConfigFile + " if it exists"}

// placeholders are what the help shows for a flag's value; else VALUE.
var placeholders = map[string]string{
	"cluster": "NAME", "name": "NAME", "priority": "N", "state-dir": "DIR", "key": "FILE", "scheduling": "POLICY", "user": "NAME", "device": "NAME", "bind": "ADDR:PORT", "advertise": "ADDR[:PORT]",
	"join": "HOST,…", "profile": "NAME", "algorithm": "NAME", "expect": "N", "preempt": "POLICY", "preempt-delay": "TIME",
	"settle": "TIME", "takeover-delay": "TIME", "on-become-leader": "COMMAND", "on-lose-leadership": "COMMAND",
	"on-leader-change": "COMMAND", "on-member-change": "COMMAND", "hook-timeout": "TIME", "hook-grace": "TIME",
	"http-listen": "ADDR[:PORT]", "http-cert-file": "FILE", "http-key-file": "FILE",
	"socket": "PATH", "log-level": "LEVEL", "log-format": "FORMAT",
}

// settingOptions are the flags of config's table, grouped as the file is.
func settingOptions() []option {
	var options []option
	for _, s := range config.Settings() {
		if s.Flag == "" {
			continue
		}
		o := option{name: s.Flag, value: placeholders[s.Flag], usage: s.Usage, fallback: s.Default, many: s.Repeatable}
		if table, _, ok := strings.Cut(s.Key, "."); ok {
			o.group = strings.ToUpper(table[:1]) + table[1:]
		}
		if len(s.Words) > 0 {
			o.offer = fixed(s.Words...)
		}
		if s.Switch {
			o.value, o.fallback = "", "" // a switch is off by default
		} else if o.value == "" {
			o.value = "VALUE"
		}
		options = append(options, o)
	}
	return options
}

// runAgent runs the agent until a signal or a reason not to go on.
func runAgent(c *call) error {
	debug.SetTraceback("crash") // a crash ends with ABRT: the runtime's own exit code is 2, which says that the command line is wrong
	if reaper.IsProcess1() {
		return runAsProcess1()
	}
	if err := rights.Hide(); err != nil { // before a secret is read
		return fmt.Errorf("keep memory out of core dumps: %w", err)
	}
	src, err := c.source()
	if err != nil {
		return err
	}
	cfg, err := loadChecked(src)
	if err != nil {
		return err
	}
	if err := mayKeep(cfg); err != nil {
		return err
	}
	out := newLogSink(c.err, lostNotice(cfg.Log, c.logStyle()))
	log := newLogger(cfg.Log, c.logStyle(), out)
	logConfig(log, cfg, src.Path)
	useOneCore()
	if err = schedule(cfg.Node.Scheduling, log); err == nil {
		err = serve(c.Context.Context, cfg, src, log)
	}
	if text := errorLines(err); text != "" {
		_, _ = out.Write([]byte(text)) // through the sink: it does not wait for a reader that stands still
		err = outcome(exitCode(err))
	}
	out.close(logPatience)
	return err
}

// mayKeep refuses addresses that this process has no right to keep, before anything else happens.
func mayKeep(cfg *config.Config) error {
	has := slices.ContainsFunc(cfg.Resources, config.Resource.IsAddress)
	var lacks *vip.Complaint
	if has && errors.As(vip.Rights(), &lacks) {
		return &failure{code: exitConfig, err: lacks, hint: lacks.Remedy}
	}
	return nil
}

// useOneCore keeps the runtime from waking a second core for each datagram, which
// has no work for it: an idle leader of five then takes a fifth less CPU (1.05 %
// of a core against 1.30 %, measured side by side). GOMAXPROCS in the environment
// says otherwise.
func useOneCore() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// source is where this call's configuration comes from.
func (c *call) source() (config.Source, error) {
	src := c.sourceHere()
	for _, s := range config.Settings() {
		if s.Flag == "" || !c.IsSet(s.Flag) {
			continue
		}
		switch {
		case s.Repeatable:
			src.Flags[s.Flag] = c.StringSlice(s.Flag)
		case s.Switch:
			src.Flags[s.Flag] = []string{strconv.FormatBool(c.Bool(s.Flag))}
		default:
			src.Flags[s.Flag] = []string{c.String(s.Flag)}
		}
	}
	if c.IsSet("config") && src.Path == "" {
		return src, usage("leave it out to read "+defaultConfigFile+" if it exists", "--config is empty: expected a file")
	}
	return src, nil
}

// sourceHere is what a call without settings on its command line reads.
func (c *call) sourceHere() config.Source {
	return config.Source{Env: c.instance.lookupEnv, Names: environNames(), Path: c.configPath(), Instance: c.instance.name, Flags: map[string][]string{}}
}

func environNames() []string {
	var names []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

// configPath names the file to read; "" for none.
func (c *call) configPath() string {
	if c.IsSet("config") {
		return c.String("config")
	}
	if path, _ := c.instance.lookupEnv("BULLY_CONFIG"); path != "" {
		return path
	}
	if c.instance.name != "" {
		return config.InstanceFile(c.instance.name) // a slip in the name must not start an agent with defaults
	}
	if _, err := os.Stat(defaultConfigFile); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return defaultConfigFile // one that cannot be read is an error, and not the same as none
}

// loadChecked loads the configuration for an agent that runs, and compares it with this host.
func loadChecked(src config.Source) (*config.Config, error) {
	cfg, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	cfg.Look.IsStart = true
	return cfg, checkHost(cfg)
}

func checkHost(cfg *config.Config, also ...func(hooks.Command) error) error {
	if o, is := serviceOwner(service(cfg.Instance), cfg.Network.Key); is && cfg.Look.KeyOwners == nil {
		cfg.Look.KeyOwners = []uint32{uint32(o.uid)} // root may run what the unit would
	}
	cfg.Look.Hook = func(cmd config.Command) error {
		for _, check := range append([]func(hooks.Command) error{trust.Check}, also...) {
			if err := check(hookCommand(cmd)); err != nil {
				return err
			}
		}
		return nil
	}
	return cfg.CheckHost()
}

// checkState refuses today what the next start would refuse, when nobody looks.
func checkState(cfg *config.Config) error {
	return agent.CheckState(cfg.Node.StateDir, cfg.Cluster, cfg.Node.Name, cfg.Election.Expect, cfg.Network.Hosts)
}

func logConfig(log hclog.Logger, cfg *config.Config, path string) {
	if path == "" {
		log.Info("no configuration file read", "default", defaultConfigFile)
	} else {
		log.Info("configuration file read", "file", path)
	}
	for _, note := range slices.Concat(cfg.Notes, cfg.Passing) {
		log.Warn("configuration doubtful", "note", note)
	}
}

// serve runs the agent on real sockets with the process's signals.
func serve(ctx context.Context, cfg *config.Config, src config.Source, log hclog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signals := watchSignals(stop, log)
	defer signals.end()

	ring, err := cfg.Ring()
	if err != nil {
		return err
	}
	ac := agentConfig(cfg)
	ac.Keys = ring
	if err := setApart(&ac, cfg.Node.User); err != nil {
		return err
	}
	if ac.Access, err = access(cfg.Control); err != nil {
		return err
	}
	ac.Version, ac.Logger, ac.Now = thisBuild().Version, log, agent.BootClock()
	ac.WatchLink = agent.NetlinkWatch
	ac.Scheduling = scheduling
	go watchScheduling(ctx, log)
	ac.Abort, ac.Dump, ac.Reloads = signals.abort, signals.dump, signals.reload
	reloader := newReloader(cfg, ring, src)
	ac.Reload, ac.Refusal = reloader.reload, reloader.refusal
	if ac.Apart != nil {
		ac.Apart.GiveUp = func() error { return giveUp(cfg.Node.User, []string{src.Path, cfg.Network.Key}, log) }
	}
	ac.KeeperArgs, ac.KeeperEnviron = keeperArgs(cfg, src), keeperEnviron(os.Environ())
	ac.Listen = func() (transport.LAN, error) {
		lan, err := transport.Listen(transport.Config{Bind: cfg.Network.Bind, Advertise: cfg.Network.Advertise, Device: cfg.Network.Device,
			Logger: log.Named("transport")})
		if err != nil {
			return nil, explainListen("/proc", config.InstanceSockets(), lanPort(cfg), err)
		}
		return lan, nil
	}
	if cfg.HTTP.Listen.IsValid() {
		ac.ListenHTTP = func() (*reader.Feed, error) {
			feed, err := reader.Open(cfg.HTTPD())
			if err != nil {
				return nil, explainListen("/proc", config.InstanceSockets(), httpPort(cfg), err)
			}
			return feed, nil
		}
	}
	pulse := sdnotify.NewPulse()
	ac.Started = func(netip.AddrPort) { sdnotify.Ready() }
	ac.Pulse, ac.PulseEvery = pulse.Take, pulse.Every()
	return agent.Run(ctx, ac)
}
