package config

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bully-agent/bully-agent/internal/vip"
)

const okAddress = "[[resource]]\naddress = \"192.168.1.50/24\"\ninterface = \"eth0\"\n"

func TestResources(t *testing.T) {
	c := mustLoad(t, Source{Path: writeFile(t, "[[resource]]\nunit = \"haproxy.service\"\n"+okAddress+
		"[[resource]]\nname = \"two\"\naddresses = [\"10.0.0.7/32\", \"2001:db8::7/64\"]\ninterface = \"br0\"\nreset = true\non_fail = \"stay\"\n"+
		"[[resource]]\ncommand = [\"/usr/local/bin/worker\", \"-v\"]\ntimeout = \"1s\"\ngrace = \"500ms\"\n")}, alpha())
	var names []string
	for _, r := range c.Resources {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"haproxy.service", "address-192.168.1.50", "two", "worker"}, names); diff != "" {
		t.Error(diff)
	}
	two, worker := c.Resources[2], c.Resources[3]
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("2001:db8::7/64")}; fmt.Sprint(two.Addresses) != fmt.Sprint(want) || !two.Stays || !two.Reset || two.Interface != "br0" {
		t.Errorf("%+v", two)
	}
	if c.Resources[0].Timeout != 10*time.Second || worker.Timeout != time.Second || worker.Grace != 500*time.Millisecond || worker.Command.Argv[1] != "-v" {
		t.Errorf("%+v", worker)
	}
	again := mustLoad(t, Source{Path: writeFile(t, c.TOML())}, alpha())
	if len(again.Resources) != 4 || again.Resources[2].Name != "two" || !again.Resources[2].Stays || !again.Resources[2].Reset {
		t.Errorf("what config show prints is read as %+v", again.Resources)
	}
}

func TestBadResources(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"[[resource]]\nname = \"a\"\n", `FILE:1:3: resource: it is nothing: expected one of address, addresses, unit, command; hint: write a line such as address = "192.168.1.50/24"`},
		"two kinds":         {okAddress + "unit = \"a.service\"\n", `FILE:4:8: resource.unit: it is address as well: expected one of them; hint: write a [[resource]] for each, in the order in which they begin`},
		"a slip":            {"[[resource]]\naddreses = [\"10.0.0.7/32\"]\ninterface = \"eth0\"\n", `resource.addreses: there is no such key; hint: did you mean addresses?`},
		"no interface":      {"[[resource]]\naddress = \"192.168.1.50/24\"\n", `FILE:1:3: resource: interface is missing: expected a line such as interface = "eth0"`},
		"an idle interface": {"[[resource]]\nunit = \"a.service\"\ninterface = \"eth0\"\n", `FILE:3:13: resource.interface: only addresses have an interface: expected an address as well`},
		"nobody to reset":   {"[[resource]]\nunit = \"a.service\"\nreset = true\n", `FILE:3:9: resource.reset: only addresses have clients to reset: expected an address as well`},
		"no prefix":         {"[[resource]]\naddress = \"192.168.1.50\"\ninterface = \"eth0\"\n", `FILE:2:11: resource.address: "192.168.1.50" has no prefix; hint: write 192.168.1.50/32, or the prefix of the network`},
		"no address":        {"[[resource]]\naddress = \"web\"\ninterface = \"eth0\"\n", `FILE:2:11: resource.address: "web" is not an address; hint: addresses are ADDRESS/PREFIX, such as 192.168.1.50/32 or 2001:db8::50/128`},
		"multicast":         {"[[resource]]\naddress = \"224.0.0.1/32\"\ninterface = \"eth0\"\n", `FILE:2:11: resource.address: "224.0.0.1/32" is a multicast address`},
		"broadcast":         {"[[resource]]\naddress = \"192.168.1.255/24\"\ninterface = \"eth0\"\n", `is the broadcast address of 192.168.1.0/24`},
		"empty":             {"[[resource]]\naddresses = []\ninterface = \"eth0\"\n", `FILE:2:13: resource.addresses: it is empty: expected an address with its prefix`},
		"a number":          {"[[resource]]\naddresses = [7]\ninterface = \"eth0\"\n", `resource.addresses: 7 is a number: expected a string`},
		"twice in one":      {"[[resource]]\naddresses = [\"10.0.0.1/32\", \"10.0.0.1/24\"]\ninterface = \"eth0\"\n", `10.0.0.1 is named twice`},
		"twice in two":      {okAddress + "[[resource]]\nname = \"b\"\naddress = \"192.168.1.50/32\"\ninterface = \"eth1\"\n", `FILE:6:11: resource.address: 192.168.1.50 is the address of two resources: also on line 2; hint: remove one`},
		"this host's own":   {"[[resource]]\naddress = \"127.0.0.1/8\"\ninterface = \"eth0\"\n", `is a loopback address, which every host has for itself`},
		"the bind address":  {"[network]\nbind = \"10.0.0.9\"\n[[resource]]\naddress = \"10.0.0.9/24\"\ninterface = \"eth0\"\n", `FILE:4:11: resource.address: 10.0.0.9 is this host's own, at which the others reach it: expected one that goes with the leadership`},
		"a seed":            {"[network]\njoin = [\"10.0.0.8:7946\", \"10.0.0.9\"]\n[[resource]]\naddresses = [\"10.0.0.9/24\"]\ninterface = \"eth0\"\n", `FILE:4:13: resource.addresses: 10.0.0.9 is in network.join: expected one that goes with the leadership, and no member's own`},
		"a slash":           {"[[resource]]\naddress = \"10.0.0.1/32\"\ninterface = \"a/b\"\n", `FILE:3:13: resource.interface: "a/b" is no name of an interface: expected an interface's name, 1–15 bytes without blanks, / and :`},
		"unspecified":       {"[[resource]]\naddress = \"0.0.0.0/32\"\ninterface = \"eth0\"\n", `FILE:2:11: resource.address: "0.0.0.0/32" is`},
		"the network":       {"[[resource]]\naddress = \"192.168.1.0/24\"\ninterface = \"eth0\"\n", `FILE:2:11: resource.address: "192.168.1.0/24" is the address of the network`},
		"advertised":        {"[network]\nadvertise = \"10.0.0.9\"\n[[resource]]\naddress = \"10.0.0.9/24\"\ninterface = \"eth0\"\n", `10.0.0.9 is this host's own`},
		"a long interface":  {"[[resource]]\naddress = \"10.0.0.1/32\"\ninterface = \"abcdefghijklmnop\"\n", `FILE:3:13: resource.interface: "abcdefghijklmnop" is no name of an interface`},
		"a path":            {"[[resource]]\nunit = \"/etc/systemd/system/a.service\"\n", `FILE:2:8: resource.unit: "/etc/systemd/system/a.service" is a path: expected the name of a unit, such as "haproxy.service"`},
		"a template":        {"[[resource]]\nunit = \"a@.service\"\n", `FILE:2:8: resource.unit: "a@.service" is a template: expected an instance of it, such as "a@main.service"`},
		"no suffix":         {"[[resource]]\nunit = \"haproxy\"\n", `FILE:2:8: resource.unit: "haproxy" does not end with a type of unit`},
		"one unit twice":    {"[[resource]]\nunit = \"a.service\"\n[[resource]]\nname = \"b\"\nunit = \"a.service\"\n", `FILE:5:8: resource.unit: "a.service" is the unit of two resources: also on line 2; hint: remove one`},
		"one name twice":    {okAddress + "name = \"a\"\n[[resource]]\nname = \"a\"\nunit = \"a.service\"\n", `FILE:6:8: resource.name: "a" is the name of two resources: also on line 4; hint: give each its own`},
		"one made-up name":  {"[[resource]]\ncommand = [\"/bin/a\"]\n[[resource]]\ncommand = [\"/usr/bin/a\"]\n", `FILE:3:3: resource: it would have the name "a", as the resource on line 1 has; hint: give it its own: name = "…"`},
		"an empty command":  {"[[resource]]\ncommand = \"\"\n", `FILE:2:11: resource.command: it is empty`},
		"no such on_fail":   {okAddress + "on_fail = \"ineligible\"\n", `FILE:4:11: resource.on_fail: "ineligible" is neither: expected "hand-over" or "stay"`},
		"a short timeout":   {okAddress + "timeout = \"1ms\"\n", `FILE:4:11: resource.timeout: 1ms is out of range: expected 100ms–1h`},
		"a long grace":      {"[hooks]\ntimeout = \"5s\"\ngrace = \"1s\"\n" + okAddress + "grace = \"7s\"\n", `FILE:7:9: resource.grace: grace 7s is longer than what the lose side has, which is hooks.timeout 5s and hooks.grace 1s together; hint: raise hooks.timeout or lower grace`},
		"another's key":     {okAddress + "priority = 200\n", `FILE:4:1: resource.priority: there is no such key; hint: priority is a key of [node]; a resource has name, `},
		"the file's key":    {okAddress + "cluster = \"home\"\n", `FILE:4:1: resource.cluster: there is no such key; hint: cluster is a key above the first table; a resource has name, `},
		"a near key":        {okAddress + "adress = \"10.0.0.1/32\"\n", `FILE:4:1: resource.adress: there is no such key; hint: did you mean address?`},
		"one table":         {"[resource]\nunit = \"a.service\"\n", `FILE:1:2: resource: it is one table: expected an array of tables; hint: write [[resource]]`},
		"a near name":       {"[[resorce]]\nunit = \"a.service\"\n", `FILE:1:3: resorce: there is no such table; hint: did you mean [[resource]]?`},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, tt.text)
			_, err := load(Source{Path: path}, alpha())
			if err == nil {
				t.Fatal("it is accepted")
			}
			if got := strings.ReplaceAll(err.Error(), path, "FILE"); !strings.Contains(got, tt.want) {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTooManyResources(t *testing.T) {
	var text strings.Builder
	for i := range 257 {
		fmt.Fprintf(&text, "[[resource]]\nunit = \"u%d.service\"\n", i)
	}
	path := writeFile(t, text.String())
	_, err := load(Source{Path: path}, alpha())
	if err == nil || !strings.Contains(err.Error(), ":513:3: resource: it is the 257th resource: expected at most 256") {
		t.Error(err)
	}
}

// What systemd says of a unit is said by config check: what cannot be is refused, and what may go wrong is a note.
func TestUnitsOfThisHost(t *testing.T) {
	c := mustLoad(t, Source{Path: writeFile(t, "[[resource]]\nunit = \"a.service\"\n[[resource]]\nunit = \"b.service\"\n")}, alpha())
	h := alpha()
	h.unit = func(_ context.Context, name string) (faults, warnings []string) {
		if name == "a.service" {
			return []string{"unit a.service is masked"}, nil
		}
		return nil, []string{"unit b.service starts at boot"}
	}
	problems := c.checkResources(h)
	if len(problems) != 1 || !strings.Contains(errors.Join(joined(problems)).Error(), ":2:8: resource.unit: unit a.service is masked") {
		t.Errorf("%v", problems)
	}
	if len(c.Passing) != 1 || c.Passing[0] != "unit b.service starts at boot" {
		t.Errorf("%q", c.Passing)
	}
}

// systemd takes no order of whoever is not root, unless a rule of polkit says so: a start says it, before the unit is to begin.
func TestUnitsOfAnAgentThatIsNotRoot(t *testing.T) {
	for _, isRoot := range []bool{true, false} {
		c := mustLoad(t, Source{Path: writeFile(t, "[[resource]]\nunit = \"a.service\"\n")}, alpha())
		c.Look.IsStart = true
		h := alpha()
		h.root = isRoot
		h.unit = func(context.Context, string) (faults, warnings []string) { return nil, nil }
		if problems := c.checkResources(h); len(problems) != 0 {
			t.Errorf("root %t: %v", isRoot, problems)
		}
		if said := strings.Join(c.Passing, "\n"); (said != "") != !isRoot || !isRoot && !strings.Contains(said, ":2:8: resource.unit: systemd takes orders of root") {
			t.Errorf("root %t: %q", isRoot, said)
		}
	}
}

// An interface may come later than the agent: config check refuses one that is not here, and a start says so.
func TestALateInterface(t *testing.T) {
	const late = `:3:13: resource.interface: "eth9" is no interface of this host: expected one of `
	for _, isStart := range []bool{false, true} {
		c := mustLoad(t, Source{Path: writeFile(t, strings.ReplaceAll(okAddress, "eth0", "eth9"))}, alpha())
		c.Look.IsStart = isStart
		problems := c.checkResources(alpha())
		if isStart {
			if len(problems) != 0 || len(c.Passing) != 1 || !strings.Contains(c.Passing[0], late) {
				t.Errorf("a start: %v, %q", problems, c.Passing)
			}
			continue
		}
		if len(problems) != 1 || len(c.Passing) != 0 || !strings.Contains(problems[0].Error(), late) {
			t.Errorf("config check: %v, %q", problems, c.Passing)
		}
	}
}

// Two resources of which nothing can be made are two errors, and nothing is said of their names.
func TestNamelessResources(t *testing.T) {
	bad := "[[resource]]\naddress = \"web\"\ninterface = \"eth0\"\n"
	_, err := load(Source{Path: writeFile(t, bad+bad)}, alpha())
	if err == nil || strings.Count(err.Error(), "\n") != 1 || strings.Contains(err.Error(), "name") {
		t.Error(err)
	}
}

// A grace that nobody wrote is no longer than the lose side.
func TestDefaultGrace(t *testing.T) {
	c := mustLoad(t, Source{Path: writeFile(t, "[hooks]\ntimeout = \"2s\"\ngrace = \"1s\"\n"+okAddress)}, alpha())
	if got := c.Resources[0].Grace; got != 3*time.Second {
		t.Error(got)
	}
}

// An address of a member is refused, where the members can be asked for.
func TestAddressOfAMember(t *testing.T) {
	c := mustLoad(t, Source{Path: writeFile(t, okAddress)}, alpha())
	c.Look.Owners = []vip.Owner{{Addr: netip.MustParseAddr("192.168.1.50"), Name: "n2"}}
	const want = ":2:11: resource.address: 192.168.1.50 is the own address of n2, at which the other agents reach it"
	problems := c.checkResources(alpha())
	if !slices.ContainsFunc(problems, func(e *Error) bool { return strings.Contains(e.Error(), want) }) {
		t.Errorf("%v", problems)
	}
}

// What another state of the host mends is refused by config check alone: an agent may start before an interface has its address.
func TestWhatMayPass(t *testing.T) {
	for class, want := range map[vip.Class]bool{vip.Words: false, vip.Refused: false, vip.Elsewhere: true, vip.Host: true} {
		if got := asError(&vip.Complaint{Class: class, What: "something is wrong"}).passes; got != want {
			t.Errorf("class %d passes: %t", class, got)
		}
	}
}
