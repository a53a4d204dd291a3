package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A page of somebody else's can have its own name resolve to this host's address, and the
// browser of whoever looks at it then reads here what is meant for the LAN (DNS rebinding).
// Without TLS such a name is refused; with it, the certificate does not fit.

// privateNames end names that nobody can register: RFC 6761, 6762, 8375 and 9476, ICANN's
// .internal, and what routers call a LAN.
var privateNames = []string{"localhost", "local", "home.arpa", "internal", "test", "alt", "lan", "home", "corp"}

// isKnownHost reports whether a Host header may be answered: none, an address, a name without
// a dot, one that nobody can register, or one of the configuration.
func isKnownHost(header string, known []string) bool {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	return slices.Contains(known, name) || slices.ContainsFunc(privateNames, func(end string) bool { return strings.HasSuffix(name, "."+end) })
}

// refuseForeign answers requests for a host that this one is not.
func refuseForeign(known []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && !isKnownHost(r.Host, known) {
			refuse(w, http.StatusMisdirectedRequest, "this host is not asked by that name", "use its address, or add the name to hosts under [http]")
			return
		}
		next.ServeHTTP(w, r)
	})
}
