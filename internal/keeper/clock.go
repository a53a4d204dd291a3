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
