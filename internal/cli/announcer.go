package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/vip"
)

const (
	// vouchPatience bounds the wait for the agent's word before neighbours are told something. Arbitrary.
	vouchPatience = 300 * time.Millisecond

	// followPause is before an agent is asked again to be followed. Arbitrary.
	followPause = time.Second
)

// runAnnouncer is the process that vip add leaves.
func runAnnouncer() int {
	useOneCore()
	return vip.Main(func() vip.Leadership {
		if os.Getenv("BULLY_EVENT") != "become-leader" || os.Getenv("BULLY_SOCKET") == "" {
			return nil
		}
		return tenure{client: control.Dial(os.Getenv("BULLY_SOCKET")),
			epoch: os.Getenv("BULLY_EPOCH") + " " + os.Getenv("BULLY_EPOCH_OWNER")}
	})
}

// tenure is the leadership that a become-leader hook has told this process of, by its environment.
type tenure struct {
	client *control.Client
	epoch  string // counter and owner
}

// Holds asks the agent. One that is not there leads no more.
func (t tenure) Holds() error {
	ctx, cancel := context.WithTimeout(context.Background(), vouchPatience)
	defer cancel()
	s, err := t.client.Status(ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask agent: %w", ctx.Err())
	case errors.Is(err, control.ErrUnreachable):
		return vip.ErrOver
	case err != nil:
		return fmt.Errorf("ask agent: %w", err)
	case s.Role != "leader" || fmt.Sprint(s.Epoch.Counter, " ", s.Epoch.Owner) != t.epoch:
		return vip.ErrOver
	}
	return nil
}

// Watch follows the agent's events. A member that has come may have led a part of the network, in which the neighbours are.
func (t tenure) Watch(again func()) {
	newest := uint64(0)
	follow := func(follow bool, told func(control.Event)) error {
		return t.client.Events(context.Background(), newest, follow, func(e control.Event) error {
			newest = e.Seq
			told(e)
			return nil
		})
	}
	for follow(false, func(control.Event) {}) != nil { // what is kept was before the leadership, or has been told
		time.Sleep(followPause)
	}
	for ; ; time.Sleep(followPause) {
		_ = follow(true, func(e control.Event) { // a broken stream goes on where it ended
			if mayMislead(e) {
				again()
			}
		})
	}
}

// mayMislead: neighbours may have learnt another host, or could not hear this one.
func mayMislead(e control.Event) bool {
	switch e.Type {
	case "member":
		return e.Cause == "joined" || e.Cause == "restarted" || e.Cause == "reached"
	case "link":
		return true
	}
	return false
}
