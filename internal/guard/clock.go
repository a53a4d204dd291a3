package guard

import "github.com/bully-agent/bully-agent/internal/sidecar"

// instant is on the clock that agent, keeper and guards share.
type instant = sidecar.Instant

func now() instant { return sidecar.Now() }

// earlier is the earlier of two, of which either may be none.
func earlier(a, b instant) instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
