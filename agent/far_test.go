package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// A path that gets longer than the lease bears is named on the leader, or on who wants to be it; one that is a LAN's is not.
func TestARoundTripThatTheLeaseDoesNotBear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.startAll()
		time.Sleep(20 * time.Second)
		isNamed := func() bool {
			return slices.ContainsFunc(c.hosts, func(h *testHost) bool {
				return slices.ContainsFunc(h.agent.Status().Notes, func(note string) bool {
					return strings.HasPrefix(note, "the round trip to n") && strings.Contains(note, " bears at most ")
				})
			})
		}
		if isNamed() {
			t.Error("named on a LAN")
		}
		c.lan.SetDelay(185*time.Millisecond, 186*time.Millisecond)
		for end := time.Now().Add(2 * time.Minute); !isNamed(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("not named within two minutes of round trips of 370 ms")
			}
		}
		isListed := slices.ContainsFunc(c.hosts, func(h *testHost) bool {
			return slices.ContainsFunc(h.agent.Members(), func(m control.Member) bool {
				return !m.Self && slices.Equal(m.Notes, []string{"round trip too long for the lease"})
			})
		})
		if !isListed {
			t.Error("no list of members notes it")
		}
		c.stopAll()
	})
}
