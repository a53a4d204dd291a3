package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/realtime"
)

// The words of the setting, and two of them of what is in force.
const (
	schedulingRealtime = "realtime"
	schedulingNormal   = "normal"
)

// schedule takes real time as far as the setting and the kernel go, and says which is
// in force.
func schedule(setting string, log hclog.Logger) error {
	if setting == schedulingNormal {
		log.Info("scheduling is normal", "why", scheduling().Why)
		return nil
	}
	err := realtime.Enter()
	var refused *realtime.Refused
	switch {
	case err == nil:
		useTwoCores()
		log.Info("scheduling is realtime", "memory", realtime.Current().Memory)
	case setting != schedulingRealtime:
		log.Info("scheduling is normal", "why", err)
	case errors.As(err, &refused):
		return &failure{code: exitConfig, err: fmt.Errorf("scheduling is to be realtime: %w", err), hint: refused.Hint}
	default:
		return fmt.Errorf("scheduling is to be realtime: %w", err)
	}
	return nil
}

// useTwoCores gives up what useOneCore saves: a fork holds one of the runtime's
// processors until the child has executed, and the child is ordinary. Sixteen busy
// programs on two cores keep it from that for 113 ms, in which an agent with one
// processor does nothing, and 0.6 ms with two.
func useTwoCores() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2)
	}
}

// scheduling is what is in force, for status.
func scheduling() control.Scheduling {
	s := realtime.Current()
	if s.Realtime {
		return control.Scheduling{Policy: schedulingRealtime, Memory: s.Memory}
	}
	return control.Scheduling{Policy: schedulingNormal, Why: s.Why, Memory: s.Memory}
}

// watchScheduling keeps an agent that runs away from taking the machine along.
func watchScheduling(ctx context.Context, log hclog.Logger) {
	realtime.Watch(ctx, func(s realtime.State) {
		if s.Realtime {
			log.Info("scheduling is realtime again")
		} else {
			log.Warn("scheduling is normal now", "why", s.Why)
		}
	})
}

// schedulingText is the same for people.
func schedulingText(s control.Scheduling) string {
	text := s.Policy
	if s.Why != "" {
		text += ": " + s.Why
	}
	if s.Policy == schedulingRealtime && s.Memory != "" {
		text += ", memory " + s.Memory
	}
	return text
}
