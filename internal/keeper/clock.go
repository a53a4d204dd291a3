package keeper

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// instant is on the clock that agent, keeper and holders share.
type instant = sidecar.Instant

func now() instant { return sidecar.Now() }

// clockTime reads the clock as a time.
func clockTime() time.Time { return now().Time() }

// toInstant is the reverse of instant.Time.
func toInstant(at time.Time) instant {
	if at.IsZero() {
		return 0
	}
	return max(instant(at.UnixNano()), 1)
}
