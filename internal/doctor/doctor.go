// Package doctor judges what an agent has found out about its host: one line for each thing that is well or wrong, with
// what to do. It decides from values alone.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Level says how bad a thing is.
type Level string

// The levels, in the words of the output.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, and may not for long, or not as well as it could
	Fail Level = "FAIL"
)

// Line is one thing that was looked at.
type Line struct {
	Level Level  `json:"level"`
	Check string `json:"check"` // one word
	Text  string `json:"text"`  // what was found
	Do    string `json:"do"`    // empty if there is nothing to do
}

// Limits.
const (
	clockWarn = time.Second
	clockFail = time.Minute // what a member says of a later time than this is not taken (docs/security.md)

	// leastMTU carries the longest sealed datagram over IPv6, with 48 bytes of headers, and so every other.
	leastMTU = 1280

	// maxSlew is ρ, in millionths: the leases of quorum mode bear clocks that run within it (docs/quorum.md).
	maxSlew = 10_000

	keyWarn = 365 * 24 * time.Hour // arbitrary: a key that nobody replaces is one that somebody has kept
)

// Judge gives a line for each check, in the order in which one would mend things.
func Judge(e control.Examination) []Line {
	j := judge{Examination: e}
	j.nameApart()
	for _, p := range j.Peers {
		if p.Trouble == "" {
			j.answered = append(j.answered, p)
		}
	}
	j.names(e.Peers)
	j.reach()
	j.mtu()
	if j.Far != "" {
		j.say(Warn, "round trip", "set profile = \"wan\" on all hosts, or mend the path", "%s: no leader may last", j.Far)
	}
	j.clock()
	j.versions()
	j.settings()
	j.resources()
	j.disk()
	j.scheduling()
	j.reader()
	return j.lines
}

// reader is about who answers the network, where that is asked for.
func (j *judge) reader() {
	switch r := j.Reader; {
	case r == nil:
	case r.Error != "":
		j.say(Fail, "reader", "see the log for reader: another is started every few seconds", "the network is not answered at %s: %s", r.Addr, r.Error)
	case r.Lacks != "":
		j.say(Warn, "reader", "have the kernel, the container and the unit bear Landlock and seccomp, or answer the network elsewhere (docs/security.md)",
			"answers the network at %s, confined less than it should be: %s", r.Addr, r.Lacks)
	default:
		j.say(OK, "reader", "", "answers the network at %s", r.Addr)
	}
}

type judge struct {
	control.Examination
	answered []control.Sight // those whose answer there is
	lines    []Line
}

// nameApart gives each of several members of one name its address in its name, so that every line tells which is meant.
func (j *judge) nameApart() {
	all := []control.Member{j.Self}
	for _, p := range j.Peers {
		all = append(all, control.Member{Name: p.Name, Addr: p.Addr})
	}
	label := control.Labels(all)
	j.Peers = slices.Clone(j.Peers)
	for i := range j.Peers {
		p := &j.Peers[i]
		p.Name = label(p.Name, p.Addr)
	}
}

// names warns of living members that have one name. peers have the names that they gave themselves.
func (j *judge) names(peers []control.Sight) {
	at := map[string][]string{j.Self.Name: {j.Self.Addr + " (this host)"}}
	for _, p := range peers {
		if p.Status == "alive" {
			at[p.Name] = append(at[p.Name], p.Addr)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		if places := at[name]; len(places) > 1 {
			j.say(Warn, "names", "give each another name: hostnamectl hostname, or name under [node]; then restart its agent",
				"%d members are called %s: %s", len(places), name, list(places))
		}
	}
}

func (j *judge) say(l Level, check, do, format string, args ...any) {
	j.lines = append(j.lines, Line{Level: l, Check: check, Text: fmt.Sprintf(format, args...), Do: do})
}

func (j *judge) port() uint16 {
	at, err := netip.ParseAddrPort(j.Self.Addr)
	if err != nil {
		return 0
	}
	return at.Port()
}

// who gives the names of those for whom it holds.
func who(all []control.Sight, holds func(control.Sight) bool) (names []string) {
	for _, p := range all {
		if holds(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func list(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// reach judges how this host and the others reach each other. Without its address, or the link to them, whatever does not
// pass does not for that reason, and no packet filter is to be looked at.
func (j *judge) reach() {
	if j.Link != "" {
		j.say(Fail, "link", j.LinkRemedy, "%s", j.Link)
		return
	}
	j.others()
	j.seeds()
	j.datagrams()
	j.streams()
	j.address()
	j.keys()
	j.hosts()
}

// keys names hosts that share none with this one. It is no FAIL: anybody can send what tells of them.
func (j *judge) keys() {
	for _, other := range j.OtherKeys {
		j.say(Warn, "key", j.KeyRemedy, "%s", other.AgainstKeys(cmp.Or(strings.Join(j.Keys, " "), "none")))
	}
}

// hosts names hosts that are left out, by this host's list or by theirs, and lists that differ.
func (j *judge) hosts() {
	before := len(j.lines)
	for _, by := range j.Hosts.LeftOutBy {
		j.say(Fail, "hosts", "add this host's id to hosts there, and reload", "%s at %s leaves this host out of its host list", by.Name, by.Addr)
	}
	for _, out := range j.Hosts.LeftOut {
		j.say(Warn, "hosts", "if it is yours, add its id to hosts on all hosts; if not, replace the key: bully-agent key rotate", "%s", out)
	}
	if len(j.OtherList) > 0 {
		j.say(Warn, "hosts", "make hosts the same on all hosts (config show), and reload", "the host list is not that of %s", list(j.OtherList))
	}
	if j.Hosts.Listed > 0 && len(j.lines) == before {
		j.say(OK, "hosts", "", "%d hosts may join, list %s", j.Hosts.Listed, j.Hosts.Digest)
	}
}

// isLeftOutBy reports whether the host's list does not have this host.
func (j *judge) isLeftOutBy(p control.Sight) bool {
	return slices.ContainsFunc(j.Hosts.LeftOutBy, func(by control.LeftOut) bool { return by.Addr == p.Addr })
}

// others says who could be asked.
func (j *judge) others() {
	mute := who(j.Peers, func(p control.Sight) bool { return p.Trouble != "" })
	switch {
	case !j.CanAsk:
		j.say(Warn, "others", "", "the others cannot be asked by this agent")
	case len(j.Peers) == 0 && len(j.Seeds) == 0:
		j.say(OK, "others", "", "no other host is known, and none is looked for")
	case len(j.Peers) == 0:
		j.say(Fail, "others", fmt.Sprintf("see that the names are right, that an agent runs there, and let UDP and TCP port %d pass, here and there", j.port()),
			"none of %s was ever heard: %s", list(j.Seeds), cmp.Or(j.JoinError, "no answer"))
	case len(mute) > 0 && !slices.ContainsFunc(j.Peers, func(p control.Sight) bool { return p.Trouble != "" && !j.isLeftOutBy(p) }):
		j.say(Fail, "others", "see hosts", "%s cannot be asked, since hosts there does not name this host", list(mute))
	case len(mute) == len(j.Peers):
		j.say(Fail, "others", fmt.Sprintf("let this host open TCP connections to port %d of the others; if it may, see whether they run", j.port()),
			"no other host could be asked by TCP: %s: %s", list(mute), j.trouble(mute[0]))
	case len(mute) > 0:
		j.say(Warn, "others", fmt.Sprintf("see whether it runs; if it does, run doctor there: its TCP port %d may be closed", j.port()),
			"%s could not be asked by TCP: %s", list(mute), j.trouble(mute[0]))
	case !j.Proven:
		j.say(OK, "others", "", "%s; any host can be among them, since no key is used", j.whoAnswered())
	default:
		j.say(OK, "others", "", "%s", j.whoAnswered())
	}
}

// seeds says which entries of join are of no use now.
func (j *judge) seeds() {
	for _, entry := range j.Failing {
		j.say(Warn, "join", "see docs/discovery.md, or take it out of join", "%s", entry)
	}
}

func (j *judge) whoAnswered() string {
	return fmt.Sprintf("%d of %d answer", len(j.answered), len(j.Peers))
}

func (j *judge) trouble(name string) string {
	i := slices.IndexFunc(j.Peers, func(p control.Sight) bool { return p.Name == name })
	return j.Peers[i].Trouble
}

// datagrams tells a port that is closed from a way that is, by who of the two hears nothing.
func (j *judge) datagrams() {
	deaf := who(j.answered, func(p control.Sight) bool { return p.Arrived == 0 && (!p.Knows || p.Heard > 0) })
	unheard := who(j.answered, func(p control.Sight) bool { return p.Arrived > 0 && p.Knows && p.Heard == 0 })
	cut := who(j.answered, func(p control.Sight) bool { return p.Arrived == 0 && p.Knows && p.Heard == 0 })
	port := j.port()
	if len(deaf) > 0 {
		j.say(Fail, "udp", fmt.Sprintf("let UDP port %d in: look at this host's packet filter, then at what is between", port),
			"one way only: no datagram of %s arrives here", list(deaf))
	}
	if len(unheard) > 0 {
		j.say(Fail, "udp", fmt.Sprintf("let UDP to port %d pass: look at this host's packet filter for what goes out, at theirs, and at what is between", port),
			"one way only: no datagram of this host arrives at %s, though theirs arrive here", list(unheard))
	}
	if len(cut) > 0 {
		j.say(Fail, "udp", fmt.Sprintf("let UDP port %d pass in both directions, here, there and between", port),
			"no datagram passes between this host and %s, though TCP does", list(cut))
	}
	if len(deaf)+len(unheard)+len(cut) > 0 || len(j.answered) == 0 {
		return
	}
	silent := who(j.answered, func(p control.Sight) bool { return !p.Pinged })
	if len(silent) > 0 {
		j.say(Warn, "udp", "see the log for what is not taken, and doctor there", "datagrams pass, and %s did not answer a ping", list(silent))
		return
	}
	j.say(OK, "udp", "", "datagrams pass both ways")
}

// streams looks at who could open one to this host. Behind an address that is rewritten that is the address's matter.
func (j *judge) streams() {
	shut := who(j.answered, func(p control.Sight) bool { return p.Knows && p.Knock != "" && !j.isRewritten(p) })
	if len(shut) > 0 {
		i := slices.IndexFunc(j.answered, func(p control.Sight) bool { return p.Name == shut[0] })
		j.say(Fail, "tcp", fmt.Sprintf("let TCP port %d in: look at this host's packet filter, then at what is between", j.port()),
			"TCP port %d of this host is closed to %s: %s", j.port(), list(shut), j.answered[i].Knock)
	} else if len(j.answered) > 0 {
		j.say(OK, "tcp", "", "streams pass both ways")
	}
}

// isRewritten: the other sees this host elsewhere than it says to be.
func (j *judge) isRewritten(p control.Sight) bool {
	at, err := netip.ParseAddrPort(j.Self.Addr)
	return err == nil && p.Source != at.Addr().String()
}

func (j *judge) address() {
	elsewhere := who(j.answered, j.isRewritten)
	if len(elsewhere) == 0 {
		if len(j.answered) > 0 {
			j.say(OK, "address", "", "the others see this host at %s, as it says", j.Self.Addr)
		}
		return
	}
	i := slices.IndexFunc(j.answered, j.isRewritten)
	p := j.answered[i]
	level := Warn
	if p.Knows && p.Knock != "" {
		level = Fail
	}
	j.say(level, "address", "take this host out of the NAT (masquerade, SNAT) for the others' addresses, or set advertise to an address at which they reach it",
		"seen from %s this host is at %s, and it says to be at %s: addresses are rewritten on the way", list(elsewhere), p.Source, j.Self.Addr)
}

func (j *judge) mtu() {
	losers := who(j.answered, func(p control.Sight) bool { return p.LosesLarge })
	other := who(j.answered, func(p control.Sight) bool { return p.MTU > 0 && j.MTU > 0 && p.MTU != j.MTU })
	switch {
	case j.MTU > 0 && j.MTU < leastMTU:
		j.say(Fail, "mtu", fmt.Sprintf("set the MTU of the interface to at least %d, best to that of the others", leastMTU),
			"the interface of %s has an MTU of %d: long datagrams are lost; expected at least %d", j.Self.Addr, j.MTU, leastMTU)
	case len(losers) > 0:
		j.say(Fail, "mtu", "find the link with the smaller MTU (tracepath), and let ICMP fragmentation needed pass, or set the MTU of the interfaces to its",
			"a long question to %s has no answer, and a short one has: the path has a smaller MTU than both ends, and does not say so", list(losers))
	case len(other) > 0:
		j.say(Warn, "mtu", "set the same MTU on all hosts of one link", "the MTU is %d here, and another at %s", j.MTU, list(other))
	case j.MTU > 0:
		j.say(OK, "mtu", "", "%d", j.MTU)
	}
}

// clock compares with the median: a host that is off alone is told so, and others are told of.
func (j *judge) clock() {
	if len(j.answered) == 0 {
		return
	}
	offsets := []float64{0}
	for _, p := range j.answered {
		offsets = append(offsets, p.OffsetMS)
	}
	slices.Sort(offsets)
	median := time.Duration(offsets[len(offsets)/2] * float64(time.Millisecond))
	if len(offsets) == 2 && offsets[0] < 0 { // of two nobody knows who is right
		median = time.Duration(offsets[0] * float64(time.Millisecond))
	}
	if off := -median; off.Abs() > clockWarn {
		level := Warn
		if off.Abs() > clockFail {
			level = Fail
		}
		with := "the others'"
		if len(offsets) == 2 {
			with = j.answered[0].Name + "'s"
		}
		j.say(level, "clock", "set the clock, by NTP (timedatectl set-ntp true); if it is right here, there", "the clock of this host is %s %s",
			apart(off), with)
		return
	}
	for _, p := range j.answered {
		if off := time.Duration(p.OffsetMS*float64(time.Millisecond)) - median; off.Abs() > clockWarn {
			j.say(Warn, "clock", "set the clock of "+p.Name+", by NTP (timedatectl set-ntp true)", "the clock of %s is %s this host's and the others'", p.Name, apart(off))
			return
		}
	}
	j.say(OK, "clock", "", "within %s of the others'", time.Duration(math.Ceil(max(-offsets[0], offsets[len(offsets)-1])))*time.Millisecond)
}

// apart is "5m0s ahead of" or "5m0s behind".
func apart(d time.Duration) string {
	words := " ahead of"
	if d < 0 {
		d, words = -d, " behind"
	}
	return d.Round(100*time.Millisecond).String() + words
}

func (j *judge) versions() {
	other := who(j.answered, func(p control.Sight) bool { return p.Version != j.Version })
	if len(other) == 0 {
		j.say(OK, "version", "", "%s", j.Version)
		return
	}
	i := slices.IndexFunc(j.answered, func(p control.Sight) bool { return p.Name == other[0] })
	j.say(Warn, "version", "upgrade what is older, one host after the other", "%s here, %s at %s", j.Version, j.answered[i].Version, list(other))
}

func (j *judge) settings() {
	before := len(j.lines)
	for _, odd := range j.Odd {
		j.say(Fail, "settings", "make them the same on all hosts (config show), and restart the agent that is wrong",
			"%s takes no part here: %s", odd.Name, odd.Differ)
	}
	if len(j.OtherJobs) > 0 {
		j.say(Warn, "settings", "give all hosts the same [[job]] tables, and reload", "the jobs are not those of %s", list(j.OtherJobs))
	}
	for _, w := range j.Waiting {
		j.say(Warn, "settings", "restart the agent", "%s was changed from %s to %s, and waits for a restart", w.Setting, cmp.Or(w.Now, `""`), cmp.Or(w.Then, `""`))
	}
	if first, more := control.FirstLine(j.Refusal); first != "" {
		text, do, _ := strings.Cut(first, "; hint: ")
		if do = cmp.Or(do, "mend the file, or the flags that the agent was started with"); more != "" {
			do += "; bully-agent reload names all"
		}
		j.say(Fail, "settings", do, "the next start and a reload would be refused: %s%s", text, more)
	}
	if j.RefusalError != "" {
		j.say(Warn, "settings", "see dmesg, and the file systems that the configuration names", "it is not known whether the next start would be refused: %s", j.RefusalError)
	}
	switch {
	case len(j.lines) != before:
	case j.Unseen:
		j.say(OK, "settings", "", "the same as the others', as far as they must be; whether the next start would be refused only root sees: bully-agent config check")
	default:
		j.say(OK, "settings", "", "the same as the others', as far as they must be")
	}
}

// disk: a leader that steps down writes, and has the stop budget for all that it does then.
func (j *judge) disk() {
	took := fmt.Sprintf("a write to %s takes %.1f ms (p95); a leader has %.0f ms to let go", j.StateDir, j.SyncMS, j.StopBudgetMS)
	const do = "put the state directory (state_dir) on a faster disk, or raise lease or choose a slower profile, on all hosts"
	switch {
	case j.SyncError != "":
		j.say(Fail, "disk", "see df, mount and dmesg: the file system may be full, read-only or broken", "%s cannot be written: %s", j.StateDir, j.SyncError)
	case j.SyncMS >= j.StopBudgetMS:
		j.say(Fail, "disk", do, "%s", took)
	case j.SyncMS >= j.StopBudgetMS/2:
		j.say(Warn, "disk", do, "%s", took)
	default:
		j.say(OK, "disk", "", "%s", took)
	}
	if j.Access != "" {
		j.say(Fail, "files", "the directory must be the agent's or root's, and nobody else's to write", "%s", j.Access)
	}
}

func (j *judge) scheduling() {
	if s := j.Scheduling; s.Policy == "normal" && s.Why != "" && !strings.Contains(s.Why, "not asked for") {
		j.say(Warn, "scheduling", `give the right to it (LimitRTPRIO=1, CAP_SYS_NICE), or set scheduling = "normal"`, "normal: %s", s.Why)
	} else if s.Policy != "" {
		j.say(OK, "scheduling", "", "%s", s.Policy)
	}
	if j.Standstill != "" {
		j.say(Fail, "load", "see dmesg for the disk of "+j.StateDir+"; once that answers, the agent goes on by itself", "%s", j.Standstill)
		return
	}
	late := fmt.Sprintf("the agent comes to something new within %.1f ms (p95), and a heartbeat is due every %.0f ms", j.TurnMS, j.HeartbeatMS)
	if j.TurnMS >= j.HeartbeatMS {
		j.say(Warn, "load", "take load off this host, give the agent realtime scheduling, or choose a slower profile on all hosts", "%s", late)
		return
	}
	j.say(OK, "load", "", "%s", late)
}

// Worst is the worst level of the lines.
func Worst(lines []Line) Level {
	worst := OK
	for _, l := range lines {
		if l.Level == Fail || l.Level == Warn && worst == OK {
			worst = l.Level
		}
	}
	return worst
}

// ClockRate warns where the kernel lets this host's clock run much faster or slower than its hardware does, by adjtimex's
// tick (in µs, 100 a second) and freq (in millionths, times 2^16). Leases go by that clock as well.
func ClockRate(tick, freq int64) []Line {
	const ticks, whole = 100, 1 << 16
	ppm := float64(tick*ticks-1_000_000) + float64(freq)/whole
	if math.Abs(ppm) <= maxSlew {
		return nil
	}
	than := "faster"
	if ppm < 0 {
		than = "slower"
	}
	return []Line{{Warn, "rate", fmt.Sprintf("a time service lets this host's clock run %.1f %% %s: leases bear 1 %%", math.Abs(ppm)/10_000, than),
		"limit how fast it slews: maxslewrate 5000 in chrony's configuration (docs/quorum.md)"}}
}

// KeyAge judges one key by the day on which it was made.
func KeyAge(id string, made, now time.Time) Line {
	age := now.Sub(made)
	days := fmt.Sprintf("key %s is %d days old", id, int(age.Hours()/24))
	switch {
	case made.IsZero() || age < -48*time.Hour:
		return Line{Warn, "key", fmt.Sprintf("key %s says to be made on %s", id, made.Format("2006-01-02")), "set the clock of the host where keys are made; bully-agent key rotate"}
	case age > keyWarn:
		return Line{Warn, "key", days, "replace it: bully-agent key rotate"}
	}
	return Line{Level: OK, Check: "key", Text: days}
}
