package election

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// someSettings is a valid configuration in which no field has its default, so
// that a change of any is a change.
func someSettings() Config {
	return Config{ID: wire.ID{1}, Nonce: 2, Cluster: 3, Priority: 4, Part: Witness, Algorithm: Classic, Preempt: PreemptAlways,
		CandidateSet: 5, KnownMinimum: 6, Expect: 3, PreemptDelay: 7 * time.Second, Settle: 8 * time.Second,
		TakeoverDelay: 9 * time.Second, Heartbeat: 60 * time.Millisecond, Lease: 900 * time.Millisecond,
		StopBudget: 110 * time.Millisecond, MinAcks: 2, MinMembers: 2, Rand: rand.New(rand.NewPCG(1, 2))}
}

// What the hash covers and what the text says are the same settings: a change
// of one that moved only the hash would refuse a member without a word why.
func TestDescribeSaysWhatTheHashCovers(t *testing.T) {
	other := map[string]any{"Algorithm": Smallest, "KnowsOthers": true, "Preempt": PreemptNever, "Expect": 0, "Rand": (*rand.Rand)(nil)}
	base := someSettings()
	fields := reflect.TypeOf(base)
	seen := 0
	for i := range fields.NumField() {
		name, changed := fields.Field(i).Name, base
		field := reflect.ValueOf(&changed).Elem().Field(i)
		switch v, given := other[name]; {
		case given:
			field.Set(reflect.ValueOf(v))
		case field.CanInt():
			field.SetInt(field.Int() + 1)
		case field.CanUint():
			field.SetUint(field.Uint() + 1)
		default:
			field.Set(reflect.ValueOf(wire.ID{9}))
		}
		hashed, said := changed.Hash() != base.Hash(), changed.Describe() != base.Describe()
		if hashed != said {
			t.Errorf("a change of %s: hash changed %t, text changed %t", name, hashed, said)
		}
		if hashed {
			seen++
		}
	}
	if seen < 7 {
		t.Errorf("only %d settings are covered", seen)
	}
}

func TestDescribe(t *testing.T) {
	const want = "algorithm=classic mode=available preempt=priority heartbeat=50ms lease=400ms stop_budget=100ms takeover_delay=0s"
	if got := (Config{}).Describe(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	long := Config{Algorithm: Enhanced, Preempt: PreemptPriority, Heartbeat: 10*time.Second + 1, Lease: 9*time.Minute + 50*time.Second + 1,
		StopBudget: 4*time.Minute + 50*time.Second + 1, TakeoverDelay: 59*time.Minute + 50*time.Second + 1}
	if got := long.Describe(); len(got) > 160 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", time.Microsecond: "1us", 0: "0s", 10 * time.Second: "10s"} {
		if got := span(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	slow := Config{Lease: time.Second, Preempt: PreemptNever}
	cases := []struct {
		here, there string
		want        []Difference
	}{
		{Config{}.Describe(), Config{}.Describe(), nil},
		{Config{}.Describe(), slow.Describe(), []Difference{{"preempt", "priority", "never"}, {"lease", "400ms", "1s"}, {"stop_budget", "100ms", "250ms"}}},
		{"a=1 b=2", "b=2", []Difference{{"a", "1", "?"}}},
		{"a=1", "", []Difference{{"a", "1", "?"}}},
		{"a=1", "c=3 a=1 = x", []Difference{{"c", "?", "3"}, {"", "?", ""}, {"x", "?", ""}}},
	}
	for _, c := range cases {
		if got := Differences(c.here, c.there); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q: got %v, want %v", c.here, c.there, got, c.want)
		}
	}
}
