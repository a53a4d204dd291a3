package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/manual"
)

// Manual is all manual pages: the program's, one for each command, and the configuration file's. They come from the
// table of commands, which --help shows too, from the table of settings, and from what stands below. The program itself
// never calls it, and so does not contain it.
func Manual(e manual.Edition) []*manual.Page {
	top := root()
	pages := []*manual.Page{programPage(top, e), settingsPage(e)}
	for _, cmd := range top.subcommands {
		if cmd.name != "help" {
			pages = append(pages, commandPage(cmd, e))
		}
	}
	return pages
}

// exitMeanings is docs/operating.md's table; a test compares them.
var exitMeanings = []struct{ code, means string }{
	{"0", "yes, done"},
	{strconv.Itoa(exitNo), "no (not the leader), or plain failure"},
	{strconv.Itoa(exitUsage), "usage"},
	{strconv.Itoa(exitNoLeader), "no leader, or no quorum"},
	{strconv.Itoa(exitUnreachable), "agent not reachable"},
	{strconv.Itoa(exitTimeout), "timed out"},
	{strconv.Itoa(exitRefused), "refused, by the agent, by `fence check`, `key`, `vip` or `import`"},
	{strconv.Itoa(exitConfig), "configuration invalid"},
	{strconv.Itoa(exitLost), "`exec`: the command was ended, because the leadership or the agent went away"},
	{"125, 126, 127", "`exec`, `hold`, `as`: our own failure; the command or script cannot be executed; it was not found"},
}

// otherCodes is the sentence after that table.
const otherCodes = "Every other code of `exec`, `hold` and `as` may be the command's, 128 and more for a signal; 2, 4, 5 and 6 also ours."

// tasks are what people come to a manual with. A test parses each command.
var tasks = []struct {
	what, how string
	commands  []string
}{
	{"Make a cluster", "On the first host make the key that all share; copy it to the others as the command says. Name some hosts " +
		"under `join` in agent.toml(5), and start the service on each.",
		[]string{"bully-agent key generate", "bully-agent config check", "systemctl enable --now bully-agent"}},
	{"See who leads, and why", "`doctor` looks for each known fault, and says what to do.",
		[]string{"bully-agent status", "bully-agent members", "bully-agent explain", "bully-agent doctor"}},
	{"Make a host lead, now", "On the host that leads, name the one that is to lead. The lose hook has ended here before the become hook " +
		"starts there. The command returns when the other leads. Where it changes nothing, it says why in one line, with exit status 6. A host of " +
		"higher priority takes over again after `preempt_delay`, unless it is in `maintenance`.",
		[]string{"bully-agent step-down --to beta"}},
	{"Make a host lead whenever it is up", "Give it a `priority` above the others' in agent.toml(5) (the default is 100), and reload. It takes " +
		"over from any other leader, cleanly, after `preempt_delay`.",
		[]string{"bully-agent reload"}},
	{"Keep a host from leading", "For a while, or until it may again; both outlive restarts. A host that leads hands over first.",
		[]string{"bully-agent step-down --for 10m", "bully-agent step-down --end", "bully-agent maintenance on --reason 'kernel upgrade'", "bully-agent maintenance off"}},
	{"Stop a host safely", "Ask whether the others can do without it, then stop the service: a leader hands over, runs its lose hook and leaves. " +
		"`kill -9` is a failure like any other: the keeper runs the lose hook at once.",
		[]string{"bully-agent ok-to-stop", "systemctl stop bully-agent"}},
	{"Upgrade", "Install the new package on one host after the other. An agent that runs is restarted: one that leads hands over first, " +
		"and each keeps its id. An agent that does not run stays stopped.", nil},
	{"Run something on one host only", "The same line on every host: the first runs a command once, where this host leads; the second keeps one " +
		"running as long as it does. Hooks, checks and jobs with a timetable are in agent.toml(5).",
		[]string{"bully-agent exec -- /usr/local/bin/backup", "bully-agent hold -- /usr/local/bin/worker"}},
	{"Have an address follow the leader", "Write a resource into agent.toml(5), on every host the same: its `address` and its `interface`. The service has the right " +
		"to add addresses by a drop-in, which takes a restart. In a script of yours `vip add` is for the become hook, `vip del` for the lose hook.",
		[]string{"install -D -m 0644 /usr/share/doc/bully-agent/systemd/vip.conf /etc/systemd/system/bully-agent.service.d/vip.conf",
			"bully-agent config check", "systemctl daemon-reload", "systemctl restart bully-agent",
			"bully-agent vip add 192.168.1.50/32 eth0", "bully-agent vip del 192.168.1.50/32 eth0"}},
	{"Switch from keepalived", "The first prints what becomes of its configuration, and names each line that is left out; the second writes it. Then change " +
		"all hosts in one go: the two programs do not know of each other. `as` calls scripts that were written for keepalived, ucarp, Patroni or serf.",
		[]string{"bully-agent import keepalived /etc/keepalived/keepalived.conf",
			"bully-agent import keepalived --out /etc/bully-agent /etc/keepalived/keepalived.conf", "systemctl disable --now keepalived"}},
	{"Find the other hosts without a list", "`join` in agent.toml(5) takes names and addresses, `srv:_bully-agent._udp.lan` for SRV records, `exec:/PATH` for a program " +
		"that prints hosts, and `mdns` for hosts that answer on the link. `doctor` says what came of each.",
		[]string{"bully-agent run --join mdns", "bully-agent run --join srv:_bully-agent._udp.lan,alpha.lan", "bully-agent doctor"}},
	{"Run several agents on one host", "Each is an instance, in a cluster and on a port (`bind`) of its own. Write /etc/bully-agent/web.toml; `-i web`, before or " +
		"after a command, means that one.",
		[]string{"systemctl enable --now bully-agent@web", "bully-agent -i web status", "bully-agent step-down -i web --to beta"}},
	{"Ask in a script", "Anything but 0 means: do not act.",
		[]string{"bully-agent is-leader -q && /usr/local/bin/act", "bully-agent wait --for leader --timeout 30s"}},
}

// variables are those of every command; settings have theirs on the page of the file.
var variables = []struct{ name, means string }{
	{"BULLY_CONFIG", "The configuration file, in place of " + defaultConfigFile + "."},
	{"BULLY_SOCKET", "The agent's socket."},
	{instanceVariable, "Which of several agents on this host is meant, where `--instance` does not say it."},
	{"BULLY_KEY", "The key's file: its path, never a key."},
	{"BULLY_…", "Each setting of agent.toml(5) is a variable too. A variable overrides the file, and is overridden by a flag."},
	{"NO_COLOR", "Anything but nothing: no colours."},
	{"NOTIFY_SOCKET", "Set by systemd(1): `run` says there that it is ready, what it does (the status text), that it stops, and that a lose hook " +
		"needs more time. If WATCHDOG_USEC asks for that, it also says that its loop turns."},
}

// places are the files that matter to whoever runs a host.
var places = []struct{ path, what string }{
	{defaultConfigFile, "Settings: agent.toml(5). All have defaults; the file may be missing or empty."},
	{"/etc/bully-agent/NAME.toml", "Those of instance NAME, which must be there. The key is that of all instances."},
	{"/etc/bully-agent/key", "The key that the hosts of the cluster share. Without it an agent starts on loopback alone."},
	{"/etc/default/bully-agent", "Variables of the service, BULLY_NAME=value a line."},
	{"/etc/default/bully-agent-NAME", "Those of instance NAME's."},
	{"/var/lib/bully-agent/", "The id of this host, the epoch and the lose hooks that are due. It must survive a restart. Instance NAME's: " +
		"/var/lib/bully-agent-NAME/."},
	{"/run/bully-agent/agent.sock", "The socket on which the other commands ask the agent. Instance NAME's: " +
		"/run/bully-agent-NAME/agent.sock."},
	{"/usr/share/doc/bully-agent/", "All documents: hooks, jobs, quorum, fencing, security, troubleshooting by message, and drop-ins for the unit."},
}

// signals are those of run.
var signalMeanings = []struct{ name, means string }{
	{"TERM, INT", "Stop cleanly: hand over, run the lose hook, leave. A second one stops at once."},
	{"HUP", "Read the configuration again; an invalid one changes nothing. `bully-agent reload` does the same, and says what came of it."},
	{"USR1", "Write the state to the log."},
}

func programPage(top command, e manual.Edition) *manual.Page {
	p := manual.New(program, 1, top.usage, e)
	p.Heading("SYNOPSIS")
	p.Paragraphs("`" + program + "` COMMAND [flags] [arguments]")
	p.Heading("DESCRIPTION")
	p.Paragraphs(`One agent runs on every host of a LAN. The agents find each other, elect one leader, and run your commands, the hooks,
		where leadership comes and goes. In available mode, the default, there is one leader in every connected part of the network;
		in quorum mode at most one at any instant. Each leadership has a number that only rises, the epoch.

		The agent is ` + "`" + program + " run`" + `, best as the service bully-agent.service. The other commands ask it, over a socket on the
		same host. Agents reach each other on UDP and TCP port 7950, which firewalls must let pass. Linux only.`)
	p.Heading("HOW DO I")
	for _, t := range tasks {
		p.Subheading(t.what)
		p.Paragraphs(t.how)
		if len(t.commands) > 0 {
			p.Verbatim(t.commands...)
		}
	}
	p.Heading("COMMANDS")
	p.Paragraphs("Each has a page of its own, such as bully-agent-status(1); `" + program + " help COMMAND` has the same in short.")
	for _, cmd := range top.subcommands {
		p.Row(cmd.name, cmd.usage)
	}
	p.Heading("OPTIONS")
	options(p, top)
	exitStatus(p)
	p.Heading("SIGNALS")
	p.Paragraphs("To `" + program + " run`:")
	for _, s := range signalMeanings {
		p.Row(s.name, s.means)
	}
	environment(p)
	files(p)
	p.Heading("EXAMPLES")
	p.Verbatim(top.examples...)
	seeAlso(p, "agent.toml(5)", "systemctl(1)", "journalctl(1)")
	return p
}

// commandPage has the command's subcommands as parts.
func commandPage(cmd command, e manual.Edition) *manual.Page {
	p := manual.New(program+"-"+cmd.name, 1, cmd.usage, e)
	path := program + " " + cmd.name
	p.Heading("SYNOPSIS")
	own := cmd // without its subcommands
	own.subcommands = nil
	if cmd.action != nil {
		p.Paragraphs("`" + path + "`" + own.syntax())
	}
	for _, sub := range cmd.subcommands {
		p.Paragraphs("`" + path + " " + sub.name + "`" + sub.syntax())
	}
	if cmd.about != "" || cmd.action != nil {
		p.Heading("DESCRIPTION")
		p.Paragraphs(described(cmd))
	}
	if len(cmd.options) > 0 {
		p.Heading("OPTIONS")
		options(p, cmd)
	}
	if len(cmd.subcommands) > 0 {
		p.Heading("COMMANDS")
		for _, sub := range cmd.subcommands {
			p.Subheading(sub.name)
			p.Paragraphs(described(sub))
			options(p, sub)
			if len(sub.examples) > 0 {
				p.Paragraphs("Examples:")
				p.Verbatim(sub.examples...)
			}
		}
	}
	if len(cmd.examples) > 0 {
		p.Heading("EXAMPLES")
		p.Verbatim(cmd.examples...)
	}
	p.Heading("EXIT STATUS")
	p.Paragraphs("That of all commands, see bully-agent(1), except what is said above.")
	seeAlso(p, "bully-agent(1)", "agent.toml(5)")
	return p
}

// described is the command's one line as a sentence, and what the help says besides.
func described(cmd command) string {
	return strings.ToUpper(cmd.usage[:1]) + cmd.usage[1:] + ".\n\n" + strings.TrimSpace(cmd.about)
}

func options(p *manual.Page, cmd command) {
	for _, o := range cmd.options {
		text := strings.ToUpper(o.usage[:1]) + o.usage[1:] + "."
		if o.fallback != "" {
			text += " Default: " + o.fallback + "."
		}
		if o.many {
			text += " May be given more than once."
		}
		p.Item(text, o.label())
	}
}

func exitStatus(p *manual.Page) {
	p.Heading("EXIT STATUS")
	p.Paragraphs("A command that fails says why in one line that begins with `error:`, on standard error, and exits with a number that a script can " +
		"read in $? (systemctl(1) shows that of the service):")
	for _, m := range exitMeanings {
		p.Row(m.code, m.means)
	}
	p.Paragraphs(otherCodes + " The service is not " +
		"started again after 2 and 7: those are mistakes in the command line and in the configuration.")
}

func environment(p *manual.Page) {
	p.Heading("ENVIRONMENT")
	for _, v := range variables {
		p.Item(v.means, v.name)
	}
	p.Paragraphs("The environment of hooks, checks and jobs is in /usr/share/doc/bully-agent/hooks.md.")
}

func files(p *manual.Page) {
	p.Heading("FILES")
	for _, f := range places {
		p.Item(f.what, f.path)
	}
	p.Paragraphs("Another user than root has the key, the state and the socket in directories of its own; `" + program + " config show` prints which.")
}

func seeAlso(p *manual.Page, pages ...string) {
	p.Heading("SEE ALSO")
	p.Paragraphs(strings.Join(pages, ",\n"))
}

// settingsPage is agent.toml(5).
func settingsPage(e manual.Edition) *manual.Page {
	p := manual.New("agent.toml", 5, "settings of bully-agent", e)
	p.Heading("SYNOPSIS")
	p.Paragraphs("`" + defaultConfigFile + "`")
	p.Heading("DESCRIPTION")
	p.Paragraphs(`A file in TOML. All settings have defaults, which are what is shown, except for those that are called an example: their default
		depends on the host or on another setting. Each is read from a flag of ` + "`bully-agent run`" + `, else from its variable, else from this
		file. Keys may be written with hyphens for underscores. Durations are strings with a unit: "50ms", "30s", "5m", "2h".

		Those marked [reload] are applied by ` + "`systemctl reload bully-agent`" + `, ` + "`bully-agent reload`" + ` or SIGHUP; the others need a
		restart.`)
	known := map[string]config.Setting{}
	for _, s := range config.Settings() {
		known[s.Key] = s
	}
	p.Settings(config.ReferenceTOML(), func(key string) string { return otherWays(known[key]) })
	p.Heading("EXAMPLES")
	p.Paragraphs("An address that follows the leader, and a backup once a night on whichever host leads then:")
	p.Verbatim(exampleSettings...)
	p.Paragraphs("To look at what was written before an agent does, and to have one that runs take it:")
	p.Verbatim("bully-agent config check", "bully-agent reload")
	seeAlso(p, "bully-agent(1)", "bully-agent-config(1)", "bully-agent-reload(1)")
	return p
}

// exampleSettings is a whole file; a test loads it.
var exampleSettings = []string{
	`cluster = "home-lab"`,
	``,
	`[node]`,
	`priority = 200`,
	``,
	`[network]`,
	`join = ["alpha", "beta", "gamma"]`,
	``,
	`[hooks]`,
	`on_become_leader   = "bully-agent vip add 192.168.1.50/32 eth0"`,
	`on_lose_leadership = "bully-agent vip del 192.168.1.50/32 eth0"`,
	``,
	`[[job]]`,
	`name     = "backup"`,
	`schedule = "30 2 * * *"`,
	`command  = ["/usr/local/bin/backup"]`,
}

// otherWays names the flag and the variable of a setting; "" for what has none.
func otherWays(s config.Setting) string {
	switch {
	case s.Key == "":
		return ""
	case s.Flag == "":
		return fmt.Sprintf("Variable: %s.", s.Env)
	}
	return fmt.Sprintf("Flag: --%s. Variable: %s.", s.Flag, s.Env)
}
