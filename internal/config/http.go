package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/key"
)

// defaultHTTPPort is where the network asks, if it may.
const defaultHTTPPort = 7951

// httpListenField reads http.listen, as bindField does; "" is off.
var httpListenField = field{
	parse: func(l *loader, v value) *Error {
		s, err := v.text("address[:port]")
		if err != nil {
			return err
		}
		l.config.HTTP.Listen = netip.AddrPort{}
		if strings.TrimSpace(s) == "" {
			return nil
		}
		at, err := l.listenAt(s, v, defaultHTTPPort)
		if err == nil {
			l.config.HTTP.Listen = at
		}
		return err
	},
	get: func(c *Config) any {
		if !c.HTTP.Listen.IsValid() {
			return ""
		}
		return c.HTTP.Listen.String()
	},
}

// optionalPath is a path that "" unsets, and that refuses to be a key.
func optionalPath(at func(*Config) *string) field {
	return field{
		parse: func(l *loader, v value) *Error {
			s, isText := v.data.(string)
			if isText && (key.LooksLikeSecret(s) || strings.Contains(s, "PRIVATE KEY")) {
				return exposed()
			}
			if *at(l.config) = ""; isText && s == "" {
				return nil
			}
			s, err := l.parsePath(v)
			if err == nil {
				*at(l.config) = s
			}
			return err
		},
		get: func(c *Config) any { return *at(c) },
	}
}

// httpHostsField reads http.hosts: names, without a port.
var httpHostsField = field{
	parse: func(l *loader, v value) *Error {
		const expected = "an array of host names, without ports"
		given, err := joinList(v)
		if err != nil {
			return wrong("%s: expected %s", v.found(), expected)
		}
		var hosts []string
		for i, name := range given {
			if len(name) > 253 || !hostPattern.MatchString(name) || numericPattern.MatchString(name) {
				err := wrong("%s is not a host name: expected %s", quote(name), expected)
				err.place = v.elem(i)
				return err
			}
			if name = strings.ToLower(strings.TrimSuffix(name, ".")); !slices.Contains(hosts, name) {
				hosts = append(hosts, name)
			}
		}
		l.config.HTTP.Hosts = hosts
		return nil
	},
	get: func(c *Config) any { return c.HTTP.Hosts },
}

// checkHTTP wants a certificate with its key, and both with a port; and a port that is not
// the other one.
func (l *loader) checkHTTP() {
	h, n := l.config.HTTP, l.config.Network
	l.rule((h.Cert == "") == (h.Key == ""), "http.cert_file", "http.key_file",
		wrong("a certificate and its key go together: expected both or none").hint("set cert_file and key_file under [http]"))
	l.rule(h.Listen.IsValid() || h.Cert == "" || h.Key == "", "http.cert_file", "http.listen",
		wrong("there is a certificate, and no port to use it at").hint("set listen under [http]"))
	overlap := h.Listen.Addr() == n.Bind.Addr() || h.Listen.Addr().IsUnspecified() || n.Bind.Addr().IsUnspecified()
	l.rule(!h.Listen.IsValid() || h.Listen.Port() != n.Bind.Port() || !overlap, "http.listen", "network.bind",
		wrong("port %d is the one of network.bind: expected another, such as %d", h.Listen.Port(), defaultHTTPPort))
}

// checkHTTP looks whether the address is this host's and the certificate can be used.
func (c *Config) checkHTTP(h host, check func(string, *Error)) {
	if !c.HTTP.Listen.IsValid() {
		return
	}
	check("http.listen", checkBind(c.HTTP.Listen.Addr(), h))
	if c.HTTP.Cert == "" {
		return
	}
	doubtful, err := httpd.CheckPair(c.HTTPD())
	switch {
	case errors.Is(err, httpd.ErrKey):
		check("http.key_file", wrong("%s", err))
	case err != nil:
		check("http.cert_file", wrong("%s", err))
	}
	if doubtful != "" && !slices.Contains(c.Notes, doubtful) {
		c.Notes = append(c.Notes, doubtful)
	}
}

// HTTPD is what the port is opened with.
func (c *Config) HTTPD() httpd.Config {
	return httpd.Config{Listen: c.HTTP.Listen, Cert: c.HTTP.Cert, Key: c.HTTP.Key, Hosts: c.HTTP.Hosts, Trusted: c.agentUser()}
}
