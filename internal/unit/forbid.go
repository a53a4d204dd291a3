package unit

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Forbidden is one thing that a command would do and the unit keeps it from.
type Forbidden struct {
	Text string // what fails, and why
	Do   string // a drop-in, or another command
}

// drop-ins that come with the packages.
const (
	Folder    = "/usr/share/doc/bully-agent/systemd/"
	Addresses = Folder + "vip.conf"
	RootHooks = Folder + "root-hooks.conf"
)

// Packaged is the unit as the packages install it, for a host on which it is not installed yet.
func Packaged() *Unit {
	return &Unit{Name: NameOf(""), set: map[string][]string{
		"User": {"bully-agent"}, "ProtectProc": {"invisible"}, "ProtectHome": {"yes"}, "NoNewPrivileges": {"yes"},
		"AmbientCapabilities": {""}, "CapabilityBoundingSet": {""},
	}}
}

// Forbids says of a command, in the words of a shell, what of it the unit forbids. It looks for
// programs and paths and understands no shell: what it names is likely, and what it does not name
// may fail all the same.
func (u *Unit) Forbids(command string) (all []Forbidden) {
	if u == nil {
		return nil
	}
	programs, paths := wordsOf(command)
	has := func(names ...string) string {
		i := slices.IndexFunc(programs, func(p string) bool { return slices.Contains(names, p) })
		if i < 0 {
			return ""
		}
		return programs[i]
	}
	say := func(do, format string, args ...any) {
		all = append(all, Forbidden{Text: fmt.Sprintf(format, args...), Do: do})
	}
	if p := has("pgrep", "pidof", "ps"); p != "" && u.hidesProcesses() {
		say(u.dropIn("ProtectProc=default"), "%s sees no process of other users (ProtectProc=%s)", p, u.value("ProtectProc"))
	}
	if p := has("killall", "pkill"); p != "" && u.User() != "root" && !u.grants("CAP_KILL") {
		say("pgrep -x NAME in its place, and "+u.dropIn("ProtectProc=default"), "%s may signal no process of other users, not even with -0 (User=%s)", p, u.User())
	}
	if p := has("sudo", "su", "doas"); p != "" && isYes(u.value("NoNewPrivileges")) {
		say(u.install(RootHooks), "%s gives no rights (NoNewPrivileges=yes)", p)
	}
	if p := has("ip", "vip", "ifconfig", "arping", "nft", "iptables"); p != "" && !u.grants("CAP_NET_ADMIN") {
		say(u.install(Addresses), "%s may not change addresses (no CAP_NET_ADMIN)", map[bool]string{true: "bully-agent vip", false: p}[p == "vip"])
	}
	for _, at := range paths {
		if u.hidesHome() {
			say("move it, to /usr/local/lib, or "+u.install(RootHooks), "%s is not there (ProtectHome=%s)", at, u.value("ProtectHome"))
			break
		}
	}
	return all
}

// ForbidsAddresses says whether the unit keeps its agent from having addresses on an interface while it leads.
func (u *Unit) ForbidsAddresses() (f Forbidden, is bool) {
	if u == nil {
		return f, false
	}
	for _, right := range []string{"CAP_NET_ADMIN", "CAP_NET_RAW"} {
		if !u.grants(right) {
			return Forbidden{Text: "the agent may put no address on an interface (no " + right + ")", Do: u.install(Addresses)}, true
		}
	}
	return f, false
}

// ForbidsUnits says whether systemd takes no order of the unit's agent to start and stop other units while it leads. It takes those of
// root, and whatever a rule of polkit lets others order, which nobody can know here.
func (u *Unit) ForbidsUnits() (f Forbidden, is bool) {
	if u == nil || u.User() == "root" {
		return f, false
	}
	return Forbidden{Text: fmt.Sprintf("systemd takes no order of user %s to start or stop a unit, unless a rule of polkit lets it", u.User()), Do: u.install(RootHooks)}, true
}

func (u *Unit) hidesProcesses() bool {
	return slices.Contains([]string{"invisible", "noaccess", "ptraceable"}, u.value("ProtectProc")) && u.User() != "root"
}

func (u *Unit) hidesHome() bool {
	return isYes(u.value("ProtectHome")) || u.value("ProtectHome") == "tmpfs"
}

// grants reports whether commands have a capability: root's, unless it is bounded away, or an
// ambient one.
func (u *Unit) grants(capability string) bool {
	if u.User() == "root" {
		return inSet(u.set["CapabilityBoundingSet"], capability, true)
	}
	return inSet(u.set["AmbientCapabilities"], capability, false)
}

// inSet reports whether a capability is in the set that these lines make, as systemd.exec(5) has them. Before the first, all
// are in it, or none is. A line adds what it names, and one that begins with "~" takes it away; the first replaces the set.
// One that names nothing empties the set, or fills it.
func inSet(lines []string, capability string, before bool) bool {
	is, isFirst := before, true
	for _, line := range lines {
		line, inverts := strings.CutPrefix(line, "~")
		names := strings.Fields(line)
		isNamed := slices.Contains(names, capability)
		switch {
		case len(names) == 0:
			is = inverts
		case isFirst:
			is = isNamed != inverts
		case isNamed:
			is = !inverts
		}
		isFirst = len(names) == 0 && inverts == before
	}
	return is
}

func (u *Unit) dropIn(setting string) string {
	return fmt.Sprintf(`a drop-in (systemctl edit %s): "[Service]", then "%s"`, strings.TrimSuffix(u.Name, ".service"), setting)
}

func (u *Unit) install(file string) string {
	return fmt.Sprintf("install -D -m 0644 %s /etc/systemd/system/%s.d/%s", file, u.Name, path.Base(file))
}

// between parts the commands of a shell's line, near enough.
var between = regexp.MustCompile("[;|&()`{}]+")

// before may stand before a program without being what runs.
var before = []string{"if", "then", "else", "elif", "do", "while", "until", "!", "exec", "env", "time", "timeout", "nice", "nohup", "setsid", "sh", "bash", "command"}

var number = regexp.MustCompile(`^[0-9.]+[smh]?$`)

// changes are words with which ip changes something.
var changes = []string{"add", "del", "delete", "replace", "set", "flush", "change"}

// wordsOf gives the names of the programs that a command starts, and paths in directories that
// units hide.
func wordsOf(command string) (programs, hidden []string) {
	for line := range strings.Lines(command) {
		line, _, _ = strings.Cut(" "+line, " #")
		for _, part := range between.Split(line, -1) {
			words := strings.Fields(strings.Map(unquoted, part))
			if p := program(words); p != "" {
				programs = append(programs, p)
			}
			for _, w := range words {
				if slices.ContainsFunc([]string{"/root/", "/home/", "/run/user/"}, func(dir string) bool { return strings.HasPrefix(w, dir) }) {
					hidden = append(hidden, w)
				}
			}
		}
	}
	return programs, hidden
}

func unquoted(r rune) rune {
	if strings.ContainsRune("\"'<>", r) {
		return ' '
	}
	return r
}

// program is what one command starts; "": nothing that is of interest.
func program(words []string) string {
	for i, w := range words {
		base := path.Base(w)
		isChange := slices.ContainsFunc(words[i:], func(w string) bool { return slices.Contains(changes, w) })
		switch {
		case slices.Contains(before, base), strings.HasPrefix(w, "-"), strings.Contains(w, "="), number.MatchString(w):
		case base == "bully-agent" && len(words) > i+1:
			return words[i+1]
		case base == "ip" && !isChange:
			return ""
		default:
			return base
		}
	}
	return ""
}
