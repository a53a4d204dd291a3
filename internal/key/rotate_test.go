package key

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// The three steps, from any key, on one day or with a clock that was set back.
func TestSteps(t *testing.T) {
	for i, now := range []time.Time{noon, noon.AddDate(1, 0, 0), noon.AddDate(-1, 0, 0)} {
		for n := byte(1); n < 50; n++ {
			ring := Ring{keyOf(n)}
			old := ring[0]
			for want, length := range []int{2, 2, 1} {
				step, next, err := ring.Next(now)
				if err != nil || step != Step(want+1) || len(next) != length {
					t.Fatalf("clock %d, key %d: step %d from %v to %v, %v", i, n, step, ring, next, err)
				}
				if _, kept := next.Find(old.ID); kept != (step != Remove) {
					t.Fatalf("clock %d, key %d: after step %d the old key is kept: %v", i, n, step, kept)
				}
				ring = next
			}
			if ring[0].ID == old.ID || ring[0].ID != IDOf(ring[0].Secret) {
				t.Fatalf("clock %d, key %d: it ends with %v", i, n, ring)
			}
		}
	}
	if _, _, err := (Ring{keyOf(1), keyOf(2), keyOf(3)}).Next(noon); !errors.Is(err, errManyKeys) {
		t.Errorf("three keys: %v", err)
	}
}

// Whatever hosts have taken a step and whatever have not, any two share the key that each of
// them begins with; and where a step goes ahead, that holds after it as well. Case 70: who
// would be two steps behind is named instead.
func TestCase70NobodyIsLockedOut(t *testing.T) {
	one := Ring{keyOf(1)}
	_, two, _ := one.Next(noon)
	_, three, _ := two.Next(noon)
	_, four, _ := three.Next(noon)
	phases := []Ring{one, two, three, four}
	for i, here := range phases[:3] {
		step, next, _ := here.Next(noon)
		if step == Add {
			next = two // not one more new key
		}
		for j, there := range phases {
			unready := here.Unready(step, []Host{{Name: "beta", IDs: there.IDs()}})
			isReady := len(unready) == 0
			if hear := hears(next, there); isReady && !hear {
				t.Errorf("phase %d goes on with a host in phase %d, which it then does not hear", i, j)
			}
			if i == j && !isReady {
				t.Errorf("phase %d does not go on, all hosts being there: %v", i, unready)
			}
			if i-j == 1 && step != Add && isReady {
				t.Errorf("phase %d goes on, though a host is in phase %d", i, j)
			}
			if i-j >= 1 && isReady {
				t.Errorf("phase %d goes on with a host in phase %d", i, j)
			}
		}
	}
	for i, here := range phases[:3] {
		if !hears(here, phases[i+1]) {
			t.Errorf("phases %d and %d do not hear each other", i, i+1)
		}
	}
}

// hears: each accepts what the other begins with.
func hears(a, b Ring) bool {
	return slices.Contains(a.IDs(), b[0].ID) && slices.Contains(b.IDs(), a[0].ID)
}

// Case 71: a host that is not ready is named, and why.
func TestCase71UnreadyHostsAreNamed(t *testing.T) {
	old, fresh := keyOf(1), Generate(noon, Ring{keyOf(1)})
	a, b := old.ID, fresh.ID
	for _, tt := range []struct {
		name string
		here Ring
		host Host
		want string
	}{
		{"first step, all alike", Ring{old}, Host{IDs: []ID{a}}, ""},
		{"another host has begun", Ring{old}, Host{IDs: []ID{a, b}}, fmt.Sprintf("it has %s, %s, and this host %s", a, b, a)},
		{"the last step was not carried to it", Ring{fresh}, Host{IDs: []ID{b, a}}, fmt.Sprintf("it has %s, %s, and this host %s", b, a, b)},
		{"lacks the new key", Ring{old, fresh}, Host{IDs: []ID{a}}, fmt.Sprintf("it has %s, and lacks %s", a, b)},
		{"has it", Ring{old, fresh}, Host{IDs: []ID{a, b}}, ""},
		{"has it, and is ahead", Ring{old, fresh}, Host{IDs: []ID{b, a}}, ""},
		{"begins with the old one", Ring{fresh, old}, Host{IDs: []ID{a, b}}, fmt.Sprintf("it has %s, %s, and still begins with %s", a, b, a)},
		{"begins with the new one", Ring{fresh, old}, Host{IDs: []ID{b, a}, Uses: []ID{b}}, ""},
		{"an old session lives", Ring{fresh, old}, Host{IDs: []ID{b, a}, Uses: []ID{b, a}},
			fmt.Sprintf("a session under %s lives, for a minute at most", a)},
		{"not heard at the first step", Ring{old}, Host{}, ""},
		{"not heard", Ring{old, fresh}, Host{}, "it was not heard, so nobody knows its keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step, _, err := tt.here.Next(noon)
			if err != nil {
				t.Fatal(err)
			}
			tt.host.Name = "beta"
			got := tt.here.Unready(step, []Host{tt.host})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("not ready: %v", got)
			case tt.want != "" && !slices.Equal(got, []Unready{{"beta", tt.want, strings.HasPrefix(tt.want, "a session")}}):
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	ring := Ring{keyOf(1), keyOf(2)}
	if got := ring.Without(keyOf(1).ID, noon); !got.Equal(Ring{keyOf(2)}) {
		t.Errorf("of two: %v", got)
	}
	if got := ring[:1].Without(keyOf(1).ID, noon); len(got) != 1 || got[0].ID == keyOf(1).ID {
		t.Errorf("of one: %v", got)
	}
	if !ring.Equal(Ring{keyOf(1), keyOf(2)}) {
		t.Errorf("the ring itself was changed: %v", ring)
	}
}
