package election

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// linesOf gives an example of every event and effect, with its line in logs.
func linesOf() map[string]fmt.Stringer {
	e := wire.Epoch{Counter: 3, Owner: hostID(2)}
	addr := netip.MustParseAddrPort("10.0.0.2:7950")
	return map[string]fmt.Stringer{
		"tick": Tick{},
		"received QUERY from=02000000 seq=0 round=0 epoch=none from 02000000": Received{From: addr, Frame: wire.Frame{Kind: wire.Query, Sender: hostID(2)}},
		"member 02000000 alive life=4 priority=9":                             MemberChanged{Member{ID: hostID(2), Status: Alive, Incarnation: 4, Priority: 9}},
		"member 02000000 left life=4 priority=9":                              MemberChanged{Member{ID: hostID(2), Status: Left, Incarnation: 4, Priority: 9}},
		"member 02000000 dead life=4 priority=9":                              MemberChanged{Member{ID: hostID(2), Status: Dead, Incarnation: 4, Priority: 9}},
		"leader reported epoch=3/02000000":                                    LeaderReported{e},
		"first join ended":                                                    JoinEnded{},
		"health score=2":                                                      HealthChanged{2},
		"lose hook ended epoch=3/02000000 ok=false":                           HookEnded{Hook: Lose, Epoch: e},
		"command leave":                                                       Command{Verb: Leave},
		"command priority=7":                                                  Command{Verb: Reprioritise, Priority: 7},
		"command step-down for=10s":                                           Command{Verb: StepDown, For: 10 * time.Second},
		"command handover to=02000000":                                        Command{Verb: HandOver, To: hostID(2)},
		"command forget 02000000":                                             Command{Verb: Forget, To: hostID(2)},
		"command forget 02000000 force":                                       Command{Verb: Forget, To: hostID(2), Force: true},
		"liveness stream lost to 02000000":                                    TetherLost{ID: hostID(2)},
		"refused by 02000000":                                                 Refused{ID: hostID(2)},
		"own link up=false":                                                   LinkChanged{},
		"disk took 600ms":                                                     DiskTimed{600 * time.Millisecond},
		"save failed":                                                         SaveFailed{},
		"save recovered":                                                      SaveRecovered{},
		"save life=2 counter=5 promoted=none":                                 Save{State: Saved{Incarnation: 2, MaxCounter: 5}},
		"save life=2 counter=5 promoted=3/02000000 vote=3/02000000 roster=1/2": Save{State: Saved{Incarnation: 2, MaxCounter: 5, Promoted: e, Vote: e,
			Roster: Roster{Version: 1, IDs: []wire.ID{hostID(1), hostID(2)}}}},
		"send QUERY from=02000000 seq=0 round=0 epoch=none to 10.0.0.2:7950": Send{To: addr, Frame: wire.Frame{Kind: wire.Query, Sender: hostID(2)}},
		"claim → lead leader=02000000 epoch=3/02000000 cause=boot":           Transition{From: Claiming, To: Lead, Leader: hostID(2), Epoch: e, Cause: Boot},
		"start → stagger cause=boot":                                         Transition{From: Start, To: Stagger, Cause: Boot},
		"become hook epoch=3/02000000 cause=boot":                            StartHook{Hook: Become, Epoch: e, Cause: Boot},
		"lose hook epoch=3/02000000 cause=lease-expired by=00:00:00.100":     StartHook{Hook: Lose, Epoch: e, Cause: LeaseExpired, By: time.UnixMilli(100).UTC()},
		"hurry hook epoch=3/02000000 by=00:00:00.050":                        HurryHook{Epoch: e, By: time.UnixMilli(50).UTC()},
		"stop hook epoch=3/02000000":                                         StopHook{e},
		"lease none":                                                         LeaseUntil{},
		"lease until 12:00:00.250":                                           LeaseUntil{time.Date(2026, 1, 1, 12, 0, 0, 250e6, time.UTC)},
		"reply ok":                                                           Reply{Token: 1},
		"reply this host does not lead":                                      Reply{Token: 1, Err: ErrNotLeader},
		"departed 02000000 life=4":                                           Departed{hostID(2), 4, 9},
		"liveness stream to 02000000":                                        Tether{ID: hostID(2)},
		"host list of 1 digest=000000000000002a":                             HostsChanged{[]wire.ID{hostID(2)}, 42},
		"barred check=true":                                                  Barred{Bar: BarCheck, On: true},
		"holders some=true":                                                  HoldersChanged{Some: true},
		"will epoch=3/02000000 to=10.0.0.2:7950":                             Will{Epoch: e, To: []netip.AddrPort{addr}},
		"will epoch=4/02000000 to=nobody":                                    Will{Epoch: wire.Epoch{Counter: 4, Owner: hostID(2)}},
		"ignored duplicate":                                                  Counted{"duplicate"},
		"reached 02000000":                                                   Reached{hostID(2)},
		"secret of the keeper e8b2fbf6":                                      Entrusted{wire.Commitment{0xe8, 0xb2, 0xfb, 0xf6}},
		"no keeper has a secret":                                             Entrusted{},
		"will e8b2fbf6":                                                      WillHeard{wire.Commitment{0xe8, 0xb2, 0xfb, 0xf6}},
		"lead since 2026-01-01T00:00:00Z leader=02000000 epoch=3/02000000 cause=boot": Status{State: Lead, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Leader: hostID(2), Epoch: e, Cause: Boot},
	}
}

// What an operator reads of an event is its line and nothing else, so that each
// says all that was decided by it. Log readers match on these words.
func TestLines(t *testing.T) {
	for want, value := range linesOf() {
		if got := value.String(); got != want {
			t.Errorf("%T says\n\t%s, want\n\t%s", value, got, want)
		}
	}
}

// An event or effect that is added without a line here would be printed by nobody
// until it is in a panic.
func TestEveryEventAndEffectIsAmongTheLines(t *testing.T) {
	var shown []string
	for _, value := range linesOf() {
		shown = append(shown, reflect.TypeOf(value).Name())
	}
	for file, marker := range map[string]string{"event.go": "event", "effect.go": "effect"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range parsed.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if !isFunc || f.Recv == nil || f.Name.Name != marker {
				continue
			}
			found++
			if name := f.Recv.List[0].Type.(*ast.Ident).Name; !slices.Contains(shown, name) {
				t.Errorf("%s has no line in this test", name)
			}
		}
		if found < 12 {
			t.Errorf("only %d found in %s", found, file)
		}
	}
}

// Words of the configuration and of types that no value has.
func TestWordsOfTheConfiguration(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"classic": Classic, "enhanced": Enhanced, "smallest": Smallest, "priority": PreemptPriority, "always": PreemptAlways, "never": PreemptNever,
		"alive": Alive, "dead": Dead, "left": Left, "become": Become, "lose": Lose, "observer": RoleObserver, "candidate": RoleCandidate,
	} {
		if got.String() != want {
			t.Errorf("%T is called %s, want %s", got, got, want)
		}
	}
	for _, unknown := range []Algorithm{0, 99} {
		if got := unknown.String(); got != "unknown" {
			t.Errorf("algorithm %d is called %s", unknown, got)
		}
	}
}

// A configuration that no promise can be kept with is refused at the start, by a
// sentence that names the setting.
func TestConfigurationsThatAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"2 voters expected; a quorum needs 3 to 15, and 0 is available mode":  func(c *Config) { c.Expect = 2 },
		"16 voters expected; a quorum needs 3 to 15, and 0 is available mode": func(c *Config) { c.Expect = 16 },
		"-1 voters expected; a quorum needs 3 to 15, and 0 is available mode": func(c *Config) { c.Expect = -1 },
		"algorithm 9 is unknown": func(c *Config) { c.Algorithm = 9 },
	} {
		cfg := Config{ID: hostID(1), Rand: rand.New(rand.NewPCG(1, 1))}
		spoil(&cfg)
		_, err := New(cfg, Saved{}, time.Unix(1, 0))
		if !errors.Is(err, ErrConfig) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, voters := range []int{0, 3, wire.MaxVoters} {
		if _, err := New(Config{ID: hostID(1), Rand: rand.New(rand.NewPCG(1, 1)), Expect: voters}, Saved{}, time.Unix(1, 0)); err != nil {
			t.Errorf("%d voters: %v", voters, err)
		}
	}
}
