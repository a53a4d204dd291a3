package keepalived

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Agent is what one agent of ours does in the place of a vrrp_instance, or of the instances of a vrrp_sync_group.
type Agent struct {
	Name     string // of the instance or the group
	Cluster  string
	Port     int // 0: the default; of several agents each has its own
	Priority int
	Preempt  string // "never", or "": the default
	Delay    string // preempt_delay; "": the default
	Join     []string
	Address  string // that the others reach this host at; "": the default
	Become   []string
	Lose     []string
	Checks   []Check

	Resources []Resource // the addresses, by their interfaces

	HasScripts   bool // the hooks start scripts, which were root's unless the file said otherwise
	HasAddresses bool // it keeps addresses on an interface, for which the service needs rights
}

// Resource is a [[resource]].
type Resource struct {
	Addresses []string // with their prefixes
	Interface string
}

// Check is a [[check]].
type Check struct {
	Name     string
	Command  string // for the shell
	Interval string
	Timeout  string
	Rise     int
	Fall     int
	Penalty  int // added to the priority while it fails; 0: this host does not lead then
}

// maxName is the length in bytes of the longest name of an instance.
const maxName = 32

// firstPort and the virtual_router_id make the port of one of several agents, which so is the same on all hosts. The number
// is arbitrary: nothing that is known listens there.
const firstPort = 27950

// Convert makes agents of what was read, in the order of their instances, and judges each statement. The error says that
// there is nothing to make one of.
func Convert(file []*Statement) ([]Agent, error) {
	c := &converter{scripts: map[string]*Statement{}, instances: map[string]*Statement{}}
	if err := c.sort(file); err != nil {
		return nil, err
	}
	for _, g := range c.groups {
		c.group(g)
	}
	for _, s := range c.order {
		if c.members[s] == nil {
			c.members[s] = &party{name: s.arg(0), instances: []*Statement{s}}
			c.parties = append(c.parties, c.members[s])
		}
	}
	slices.SortStableFunc(c.parties, func(a, b *party) int {
		return slices.Index(c.order, a.instances[0]) - slices.Index(c.order, b.instances[0])
	})
	var agents []Agent
	for _, p := range c.parties {
		agents = append(agents, c.agent(p))
	}
	c.part(agents)
	for _, s := range c.scripts {
		if s.fate.kind == unjudged {
			leaveBlock(s, "no vrrp_instance tracks it: nobody runs it")
		}
	}
	rest(file)
	return agents, nil
}

// converter holds what is found by name.
type converter struct {
	scripts   map[string]*Statement // vrrp_script, by name; those that are tracked are taken out at the end
	tracked   map[string]bool
	instances map[string]*Statement
	order     []*Statement // vrrp_instance
	groups    []*Statement // vrrp_sync_group
	members   map[*Statement]*party
	parties   []*party
	ids       []int // virtual_router_id of each agent
}

// party is what one agent stands for.
type party struct {
	name      string
	group     *Statement // nil: none
	instances []*Statement
}

// sort finds what the file has by name.
func (c *converter) sort(file []*Statement) error {
	c.members, c.tracked = map[*Statement]*party{}, map[string]bool{}
	for _, s := range file {
		switch name := s.arg(0); {
		case s.fate.kind != unjudged || name == "":
		case s.Name() == "vrrp_script" && c.scripts[name] == nil:
			c.scripts[name] = s
		case s.Name() == "vrrp_instance" && c.instances[name] == nil:
			c.instances[name] = s
			c.order = append(c.order, s)
		case s.Name() == "vrrp_sync_group":
			c.groups = append(c.groups, s)
		case s.Name() == "vrrp_instance" || s.Name() == "vrrp_script":
			leaveBlock(s, "the name is there already: give it another")
		}
	}
	switch {
	case len(file) == 0:
		return errors.New("it says nothing: expected a keepalived.conf")
	case foreign(file) != nil:
		return foreign(file)
	case len(c.order) == 0:
		return errors.New("it has no vrrp_instance: there is nothing to elect a leader for")
	}
	return nil
}

// group has the instances of a vrrp_sync_group be one agent: what always moves together has one leader.
func (c *converter) group(g *Statement) {
	p := &party{name: g.arg(0), group: g}
	for _, s := range g.Block {
		if s.Name() != "group" {
			continue
		}
		s.fate.kind = carried
		for _, m := range s.Block {
			for _, name := range m.Words { // they may stand on one line
				i := c.instances[name]
				if i == nil || c.members[i] != nil {
					m.leave("there is no such vrrp_instance, or it is in another group")
					continue
				}
				m.fate.kind = carried
				c.members[i] = p
				p.instances = append(p.instances, i)
			}
		}
	}
	if len(p.instances) == 0 {
		leaveBlock(g, "the group has no instance")
		return
	}
	g.fate.kind = carried
	c.parties = append(c.parties, p)
}

// agent makes the agent of one party.
func (c *converter) agent(p *party) Agent {
	m := &maker{converter: c, Agent: Agent{Name: label(p.name, maxName), Priority: 100}, add: map[string][]string{}, inGroup: p.group != nil}
	first := true
	for _, s := range p.instances {
		s.fate.kind = carried
		m.instance, m.isFirst, first = s, first, false
		m.device = ""
		for _, t := range s.Block {
			if t.Name() == "interface" {
				m.device = t.arg(0)
			}
		}
		m.each(s.Block)
	}
	if p.group != nil {
		m.instance, m.isFirst = p.group, false
		m.each(p.group.Block)
	}
	m.finish(p)
	return m.Agent
}

// part keeps several agents on one host apart. The name of each is one of an instance, and so of a file that only it has.
func (c *converter) part(agents []Agent) {
	taken := map[int]bool{}
	names := map[string]bool{}
	if len(agents) > 1 {
		names["agent"] = true // its file is that of the agent without a name
	}
	for i := range agents {
		a := &agents[i]
		if whole, isFile := strings.CutSuffix(a.Name, ".toml"); isFile {
			a.Name = whole + "-toml"
		}
		base := a.Name
		for n := 2; names[strings.ToLower(a.Name)]; n++ {
			suffix := "-" + strconv.Itoa(n)
			a.Name = label(base, maxName-len(suffix)) + suffix
		}
		names[strings.ToLower(a.Name)] = true
		if len(agents) > 1 {
			for a.Port = firstPort + c.ids[i]; taken[a.Port]; { // two interfaces may have the same id
				if a.Port += 256; a.Port > math.MaxUint16 {
					a.Port -= math.MaxUint16 - firstPort // there are far more ports than instances in a file
				}
			}
			taken[a.Port] = true
		}
	}
}

// maker makes one agent.
type maker struct {
	*converter
	Agent
	instance *Statement
	isFirst  bool   // of its group
	device   string // the instance's interface
	id       int

	devices []string            // in the order in which they come
	add     map[string][]string // addresses of each
	own     []*Statement        // interface, of each instance
	scripts []notice            // in the order in which keepalived runs them
	bonus   int                 // what checks add to the priority while they pass
	tracks  []*Statement        // what each check comes from
	inGroup bool
}

// notice is a script that is told of a state.
type notice struct {
	on      string // MASTER, BACKUP, FAULT or STOP; "": any
	command string
}

// each judges the statements of an instance or a group.
func (m *maker) each(block []*Statement) {
	for _, s := range block {
		if s.fate.kind != unjudged {
			continue
		}
		if take, ok := taken[s.Name()]; ok {
			take(m, s)
		}
	}
}

// taken says how each keyword of an instance is carried over. Those that are not here are in left.
var taken map[string]func(*maker, *Statement)

func init() { // what it names names it
	taken = map[string]func(*maker, *Statement){
		"interface":                  func(m *maker, s *Statement) { m.own = append(m.own, s) },
		"virtual_router_id":          (*maker).takeID,
		"priority":                   (*maker).takePriority,
		"nopreempt":                  func(m *maker, s *Statement) { m.once(s, &m.Preempt, "never") },
		"preempt":                    func(_ *maker, s *Statement) { s.fate.kind = carried },
		"preempt_delay":              (*maker).takeDelay,
		"unicast_peer":               (*maker).takePeers,
		"unicast_src_ip":             (*maker).takeAddress,
		"virtual_ipaddress":          (*maker).takeVIPs,
		"virtual_ipaddress_excluded": (*maker).takeVIPs,
		"track_script":               (*maker).takeScripts,
		"track_interface":            (*maker).takeInterfaces,
		"notify_master":              func(m *maker, s *Statement) { m.takeNotify(s, "MASTER") },
		"notify_backup":              func(m *maker, s *Statement) { m.takeNotify(s, "BACKUP") },
		"notify_fault":               func(m *maker, s *Statement) { m.takeNotify(s, "FAULT") },
		"notify_stop":                func(m *maker, s *Statement) { m.takeNotify(s, "STOP") },
		"notify":                     func(m *maker, s *Statement) { m.takeNotify(s, "") },
	}
}

// once takes a setting that an agent has once: of a group the first instance's counts.
func (m *maker) once(s *Statement, to *string, value string) {
	if m.isFirst || *to == value {
		*to, s.fate.kind = value, carried
		return
	}
	s.leave("the instances of a group are one agent here: the first instance's counts")
}

// number reads a whole number, or names the statement.
func (s *Statement) number(least, most int) (int, bool) {
	n, err := strconv.Atoi(s.arg(0))
	if err != nil || n < least || n > most {
		s.leave(fmt.Sprintf("expected a number from %d to %d", least, most))
		return 0, false
	}
	return n, true
}

func (m *maker) takeID(s *Statement) {
	n, ok := s.number(1, 255)
	switch {
	case !ok:
	case m.isFirst:
		m.id, s.fate.kind = n, carried
	default:
		s.leave("the instances of a group are one agent here: the first instance's counts")
	}
}

func (m *maker) takePriority(s *Statement) {
	n, ok := s.number(1, 255)
	switch {
	case !ok:
	case m.isFirst || n == m.Priority:
		m.Priority, s.fate.kind = n, carried
	default:
		s.leave("the instances of a group are one agent here: the first instance's counts")
	}
}

func (m *maker) takeDelay(s *Statement) {
	seconds, err := strconv.ParseFloat(s.arg(0), 64)
	if err != nil || !(seconds >= 0 && seconds <= 1000) {
		s.leave("expected a number from 0 to 1000")
		return
	}
	m.once(s, &m.Delay, duration(seconds))
}

func (m *maker) takePeers(s *Statement) {
	s.fate.kind = carried
	for _, peer := range s.Block {
		if peer.fate.kind != unjudged {
			continue
		}
		addr, err := netip.ParseAddr(peer.Name())
		switch {
		case err != nil || addr.Zone() != "" || addr.IsLinkLocalUnicast() && addr.Is6():
			peer.leave("it is no address of one host that join takes: write its name there")
			continue
		case len(peer.Words) > 1:
			peer.change("without " + strings.Join(peer.Words[1:], " "))
		default:
			peer.fate.kind = carried
		}
		if name := addr.String(); !slices.Contains(m.Join, name) {
			m.Join = append(m.Join, name)
		}
	}
}

func (m *maker) takeAddress(s *Statement) {
	addr, err := netip.ParseAddr(s.arg(0))
	if err != nil || addr.Zone() != "" || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast() {
		s.leave("it is no address that advertise takes")
		return
	}
	m.once(s, &m.Address, addr.String())
}

var deviceName = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}$`)

func (m *maker) takeVIPs(s *Statement) {
	s.fate.kind = carried
	for _, v := range s.Block {
		if v.fate.kind == unjudged {
			m.takeVIP(v)
		}
	}
}

// takeVIP takes one address: what it says besides the interface, addresses here have not.
func (m *maker) takeVIP(v *Statement) {
	prefix, err := netip.ParsePrefix(v.Name())
	if addr, bare := netip.ParseAddr(v.Name()); bare == nil {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil || prefix.Addr().Zone() != "" {
		v.leave("it is no address with a prefix")
		return
	}
	device, rest := m.device, []string(nil)
	for words := v.Words[1:]; len(words) > 0; words = words[1:] {
		if words[0] == "dev" && len(words) > 1 {
			device, words = words[1], words[1:]
			continue
		}
		rest = append(rest, words[0])
	}
	if !deviceName.MatchString(device) {
		v.leave("it is not said on which interface: write dev and its name")
		return
	}
	if m.add[device] == nil {
		m.devices = append(m.devices, device)
	}
	if text := prefix.String(); !slices.Contains(m.add[device], text) {
		m.add[device] = append(m.add[device], text)
	}
	if v.fate.kind = carried; len(rest) > 0 {
		v.change("without " + strings.Join(rest, " "))
	}
}

// takeNotify takes a script that is told of a state.
func (m *maker) takeNotify(s *Statement, on string) {
	command := s.arg(0)
	switch {
	case command == "":
		s.leave("the script is missing")
		return
	case len(s.Words) > 2:
		s.change("it runs as the user of the agent, and not as " + strings.Join(s.Words[2:], " "))
	default:
		s.fate.kind = carried
	}
	if on == "" {
		kind := "INSTANCE"
		if m.instance.Name() == "vrrp_sync_group" {
			kind = "GROUP"
		}
		m.scripts = append(m.scripts, notice{command: fmt.Sprintf("bully-agent as keepalived --type %s --name %s --priority PRIORITY -- %s",
			kind, shellWord(m.instance.arg(0)), command)})
		return
	}
	m.scripts = append(m.scripts, notice{on, command})
}

// duration is a time in the words of the configuration.
func duration(seconds float64) string {
	return strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
}

// shellWord is a word as a shell is to have it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func cut(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
