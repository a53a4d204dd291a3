package config

import (
	"cmp"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bully-agent/bully-agent/internal/discovery"
)

// DefaultPort is where an agent listens that is not told otherwise.
const DefaultPort = 7950

// seed is a host, by name or address, and a port; port 0 means the port of network.bind. Or it
// is a source of hosts, as it was written (docs/discovery.md).
type seed struct {
	host   string
	port   uint16
	source string // "": it is a host
}

// splitSeed reads host, host:port, v4[:port], v6 or [v6][:port]. An empty host is left to the caller.
func splitSeed(s, expected string) (seed, *Error) {
	bare := s
	if inner, found := strings.CutPrefix(s, "["); found && strings.HasSuffix(inner, "]") {
		bare = strings.TrimSuffix(inner, "]")
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		return seed{host: addr.String()}, nil
	}
	if strings.Contains(s, "://") {
		return seed{}, wrong("%s is a URL: expected %s", quote(s), expected)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if strings.Count(s, ":") == 0 && !strings.ContainsAny(s, "[]") {
			return seed{host: s}, nil
		}
		bad := wrong("%s is not an address: expected %s", quote(s), expected)
		if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
			bad.hint("write an IPv6 address with a port as [address]:port")
		}
		return seed{}, bad
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return seed{}, wrong("%s has port %s: expected 1–65535", quote(s), quote(port))
	}
	return seed{host: host, port: uint16(n)}, nil
}

// checkUnicast refuses addresses that nobody could reach this or another host at.
func checkUnicast(addr netip.Addr) *Error {
	switch {
	case addr.IsLinkLocalUnicast():
		return wrong("%s is link-local, which other hosts cannot tell from their own: expected a routable address", addr)
	case addr.Zone() != "":
		return wrong("%s has a zone, which means nothing on other hosts: expected an address without one", quote(addr.String()))
	case addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return wrong("%s is a multicast or broadcast address: expected one of a single host", addr)
	}
	return nil
}

// bindField reads network.bind: an address and a port, either of which may be left out, or a go-sockaddr template.
var bindField = field{
	parse: func(l *loader, v value) *Error {
		const expected = "address:port"
		s, err := v.text(expected)
		if err != nil {
			if n, ok := v.data.(int64); ok {
				err.hint("write %s", v.literal(":"+strconv.FormatInt(n, 10)))
			}
			return err
		}
		if strings.TrimSpace(s) == "" {
			return wrong("it is empty: expected %s", expected).hint("write %s", v.literal("0.0.0.0:7950"))
		}
		at, err := l.listenAt(s, v, DefaultPort)
		if err == nil {
			l.config.Network.Bind = at
		}
		return err
	},
	get: func(c *Config) any { return c.Network.Bind.String() },
}

// listenAt is an address of this host and a port to listen on; either may be left out.
func (l *loader) listenAt(s string, v value, port uint16) (netip.AddrPort, *Error) {
	at, err := l.expand(s)
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr, err := parseHostAddr(at, v, netip.IPv4Unspecified())
	if err != nil {
		return netip.AddrPort{}, err
	}
	if at.port == 0 {
		at.port = port
	}
	return netip.AddrPortFrom(addr, at.port), nil
}

// advertiseField reads network.advertise; "" leaves the choice to derive, which also fills in a missing port.
var advertiseField = field{
	parse: func(l *loader, v value) *Error {
		s, err := v.text("address[:port]")
		if err != nil {
			return err
		}
		l.advertise = seed{}
		if strings.TrimSpace(s) == "" {
			return nil
		}
		at, err := l.expand(s)
		if err != nil {
			return err
		}
		addr, err := parseHostAddr(at, v, netip.Addr{})
		if err != nil {
			return err
		}
		if addr.IsUnspecified() {
			return wrong("%s is no address to reach a host at: expected one of this host's addresses", addr)
		}
		l.advertise = seed{host: addr.String(), port: at.port}
		return nil
	},
	get: func(c *Config) any { return c.Network.Advertise.String() },
}

// expand evaluates a template, if there is one, and splits the result.
func (l *loader) expand(s string) (seed, *Error) {
	text := strings.TrimSpace(s)
	templated := strings.Contains(s, "{{")
	if templated {
		out, err := l.host.template(text)
		if err != nil {
			return seed{}, wrong("%s is not a template that works: %s", quote(s), cut(err.Error()))
		}
		text = strings.TrimSpace(out)
	}
	at, err := splitSeed(text, "address[:port]")
	if templated && (err == nil && at.host == "" || text == "") {
		// Listening on everything is not what a template for one address meant.
		return seed{}, wrong("%s gives no address on this host: expected one", quote(s)).hint("see the interfaces with `ip -br address`")
	}
	if templated && err != nil {
		return seed{}, wrong("%s gives %s: expected one address", quote(s), quote(text))
	}
	return at, err
}

// parseHostAddr reads an address of a host, never a name: what a name resolves to can change and be several.
func parseHostAddr(at seed, v value, whenEmpty netip.Addr) (netip.Addr, *Error) {
	if at.host == "" && whenEmpty.IsValid() {
		return whenEmpty, nil
	}
	addr, err := netip.ParseAddr(at.host)
	if err != nil {
		bad := wrong("%s is not an IP address: expected address[:port]", quote(at.host))
		if n, err := strconv.ParseUint(at.host, 10, 16); err == nil {
			bad.hint("write %s for a port", v.literal(":"+strconv.FormatUint(n, 10)))
		} else if at.host == "localhost" {
			bad.hint("write %s", v.literal("127.0.0.1"))
		}
		return netip.Addr{}, bad
	}
	addr = addr.Unmap()
	return addr, checkUnicast(addr)
}

// joinField reads network.join into the loader; derive adds the port where it is missing.
var joinField = field{
	parse: func(l *loader, v value) *Error {
		hosts, err := joinList(v)
		if err != nil {
			return err
		}
		seeds := make([]seed, 0, len(hosts))
		for i, host := range hosts {
			s, err := parseJoin(host)
			if err == nil && s.source != "" {
				err = checkAgain(seeds, s)
			}
			if err != nil {
				err.place = v.elem(i)
				return err
			}
			seeds = append(seeds, s)
		}
		l.seeds = seeds
		return nil
	},
	get: func(c *Config) any { return c.Network.Join },
}

// checkAgain refuses a source that was named before, and one too many.
func checkAgain(before []seed, s seed) *Error {
	sources := 0
	for _, b := range before {
		if b.source == s.source {
			return wrong("%s is there twice: expected each source once", quote(s.source))
		}
		if b.source != "" {
			sources++
		}
	}
	if sources == discovery.MaxSources {
		return wrong("%s is one source too many: expected at most %d", quote(s.source), discovery.MaxSources)
	}
	return nil
}

func joinList(v value) ([]string, *Error) {
	const expected = "an array of host[:port]"
	switch d := v.data.(type) {
	case []string:
		return d, nil
	case string:
		return nil, wrong("%s: expected %s", v.found(), expected).hint("write [%s]", quotedList(d))
	case []any:
		hosts := make([]string, len(d))
		for i, e := range d {
			one := value{place: v.elem(i), data: e}
			s, err := one.text("host[:port]")
			if err != nil {
				err.place = one.place
				return nil, err
			}
			hosts[i] = s
		}
		return hosts, nil
	}
	return nil, wrong("%s: expected %s", v.found(), expected)
}

// quotedList is the array that a text with commas was meant to be.
func quotedList(text string) string {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, quote(word))
		}
	}
	return cut(strings.Join(words, ", "))
}

// hostPattern is a DNS name, underscores allowed since hosts files have them. numericPattern is what a resolver takes
// for an address or refuses: a name whose last label is a number.
var (
	hostPattern    = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)
	numericPattern = regexp.MustCompile(`(^|\.)[0-9]+\.?$`)
)

// CheckSeed says why a text is no host[:port] as network.join takes them; nil: it is one. The
// error is one line.
func CheckSeed(text string) error {
	if _, err := parseHost(text); err != nil {
		return err
	}
	return nil
}

// parseJoin reads an entry of network.join.
func parseJoin(s string) (seed, *Error) {
	if discovery.IsSource(s) {
		return seed{source: s}, checkSource(s)
	}
	if err := checkScheme(s); err != nil {
		return seed{}, err
	}
	return parseHost(s)
}

// checkSource looks at the form of a source. Whether the host has such a program is CheckHost's
// to find out.
func checkSource(s string) *Error {
	if name, ok := strings.CutPrefix(s, discovery.SRV); ok {
		switch {
		case name == "":
			return wrong("%s names no records: expected srv:NAME", quote(s)).hint("write %s", quote("srv:_bully-agent._udp.lan"))
		case len(name) > 253 || name[0] != '_' || !hostPattern.MatchString(name): // RFC 2782; and "srv:7950" is a host
			return wrong("%s: %s is no name of SRV records: expected srv:NAME", quote(s), quote(name)).
				hint("write %s; a host that is called srv is \"srv.\"", quote("srv:_bully-agent._udp.lan"))
		}
		return nil
	}
	program, ok := strings.CutPrefix(s, discovery.Exec)
	switch {
	case !ok: // mdns
		return nil
	case program == "":
		return wrong("%s names no program: expected exec:/PATH", quote(s))
	case strings.ContainsAny(program, " \t"):
		return wrong("%s has a blank: expected exec:/PATH, which gets no arguments", quote(s)).hint("write a script that calls it with its arguments")
	case !strings.HasPrefix(program, "/"):
		return wrong("%s is not an absolute path: expected exec:/PATH", quote(s))
	}
	return nil
}

// checkScheme tells what was meant to be a source from a host with a port. A URL and an IPv6
// address are others' to judge.
func checkScheme(s string) *Error {
	const expected = "host[:port], srv:NAME, exec:/PATH or mdns"
	scheme, rest, found := strings.Cut(s, ":")
	scheme = strings.ToLower(scheme)
	switch {
	case scheme == discovery.MDNS:
		return wrong("%s is not a source of hosts: expected %s", quote(s), expected).hint("write %s", quote(discovery.MDNS))
	case !found || strings.Trim(rest, "0123456789") == "" || strings.Contains(rest, ":") || strings.HasPrefix(rest, "//"):
		return nil
	}
	err := wrong("%s is neither host:port nor a source of hosts: expected %s", quote(s), expected)
	switch near := nearest(scheme, []string{"srv", "exec", discovery.MDNS}); near {
	case "":
		return err
	case discovery.MDNS:
		return err.hint("did you mean %s?", quote(near))
	default:
		return err.hint("did you mean %s?", quote(near+":"+rest))
	}
}

// parseHost reads an entry of network.join that is a host.
func parseHost(s string) (seed, *Error) {
	if s == "" {
		return seed{}, wrong("an entry is empty: expected host[:port]")
	}
	at, bad := splitSeed(s, "host[:port]")
	if bad != nil {
		return seed{}, bad
	}
	if addr, err := netip.ParseAddr(at.host); err == nil {
		addr = addr.Unmap()
		at.host = addr.String()
		if addr.IsUnspecified() {
			return seed{}, wrong("%s is no address to reach a host at: expected host[:port]", addr)
		}
		return at, checkUnicast(addr)
	}
	if numericPattern.MatchString(at.host) {
		return seed{}, wrong("%s is neither an IP address nor a name: expected host[:port]", quote(s))
	}
	if len(at.host) > 253 || !hostPattern.MatchString(at.host) {
		return seed{}, wrong("%s is not a host name: expected host[:port]", quote(s))
	}
	return at, nil
}

// hostPorts writes seeds out, hosts with their port, each once.
func hostPorts(seeds []seed, port uint16) []string {
	var list []string
	for _, s := range seeds {
		if s.port == 0 {
			s.port = port
		}
		text := cmp.Or(s.source, net.JoinHostPort(s.host, strconv.Itoa(int(s.port))))
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
