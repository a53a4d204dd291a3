package election

import (
	"testing"
	"time"
)

// Whom a bar holds back stands for nothing, follows, and comes back when it may.
func TestABarHoldsBack(t *testing.T) {
	t.Run("a candidate lets be", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.happens(Barred{Bar: BarCheck, On: true})
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Observe)
		n.hears(n.actor(2).heartbeat(2))
		n.expects("observe → follow leader=n2")
	})
	t.Run("a follower does not stand when its leader is lost", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 2)
		n.follows(2, 1)
		n.happens(Barred{Bar: BarCheck, On: true})
		n.happens(Barred{Bar: BarCheck, On: true})
		n.expects()
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Observe)
		n.happens(Barred{Bar: BarCheck})
		n.expects("observe → stagger cause=checks-pass")
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Lead)
	})
}

// Each bar keeps a node from standing, and its status names it.
func TestEachBarIsNamed(t *testing.T) {
	bars := map[Bar]func(n *story){
		BarCheck: func(n *story) { n.happens(Barred{Bar: BarCheck, On: true}) },
		BarDisk:  func(n *story) { n.happens(SaveFailed{}) },
		BarLink:  func(n *story) { n.happens(LinkChanged{Up: false}) },
	}
	for bar, happens := range bars {
		t.Run(bar.String(), func(t *testing.T) {
			n := storyOf(t, 3, Config{}, 1, 2)
			n.follows(2, 1)
			happens(n)
			if got := n.node.Status().Bars; got != Bars(0).with(bar, true) {
				t.Errorf("bars are %q, expected %q", got, bar)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		if got := n.node.Status().Bars; got != 0 || got.String() != "" {
			t.Errorf("bars are %q, expected none", got)
		}
	})
}
