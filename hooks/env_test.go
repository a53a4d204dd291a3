package hooks

import (
	"encoding/json"
	"math"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

func fullEvent() Event {
	return Event{
		Kind: LeaderChange, Cause: "won-election", Time: time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600)),
		Cluster: "home-lab", Mode: "quorum", Role: "follower", Quorum: 2,
		Epoch:      Epoch{Counter: math.MaxUint64, Owner: "b2"},
		Self:       Node{ID: "a1", Name: "alpha", Addr: "10.0.0.1:7950"},
		Leader:     Node{ID: "b2", Name: "beta", Addr: "[fe80::1%eth0]:7950"},
		PrevLeader: Node{ID: "c3", Name: "gamma", Addr: "10.0.0.3:7950"},
		Members: []Member{
			{ID: "a1", Name: "alpha", Addr: "10.0.0.1:7950", Status: "alive", Priority: 10, Voter: true},
			{ID: "b2", Name: "beta", Addr: "[fe80::1%eth0]:7950", Status: "alive", Priority: 0},
			{ID: "d4", Name: "delta", Addr: "10.0.0.4:7950", Status: "dead", Priority: 5, Voter: true},
		},
	}
}

func nothingSet(string) string { return "" }

// Contracts 3: the whole environment, in order, nothing more.
func TestEnvironmentOfAFullEvent(t *testing.T) {
	want := `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOME=/
LANG=C.UTF-8
BULLY_EVENT=leader-change
BULLY_CAUSE=won-election
BULLY_CLUSTER=home-lab
BULLY_NODE=alpha
BULLY_NODE_ID=a1
BULLY_NODE_ADDR=10.0.0.1:7950
BULLY_ROLE=follower
BULLY_EPOCH=18446744073709551615
BULLY_EPOCH_OWNER=b2
BULLY_LEADER=beta
BULLY_LEADER_ID=b2
BULLY_LEADER_ADDR=[fe80::1%eth0]:7950
BULLY_PREV_LEADER=gamma
BULLY_MODE=quorum
BULLY_MEMBERS_ALIVE=2
BULLY_SEQ=42
BULLY_TIME=2026-03-01T11:00:00.000000005Z
BULLY_ATTEMPT=1
BULLY_TIMEOUT_SECONDS=30
BULLY_SOCKET=/run/bully-agent/agent.sock`
	c := Circumstances{Seq: 42, Attempt: 1, Timeout: 30 * time.Second, Socket: "/run/bully-agent/agent.sock"}
	if got := strings.Join(Environ(fullEvent(), c, nothingSet), "\n"); got != want {
		t.Errorf("environment\n%s\nwant\n%s", got, want)
	}
}

// All names are there even when nothing is known, so that "set -u" scripts live.
func TestEnvironmentOfAnEmptyEvent(t *testing.T) {
	full := Environ(fullEvent(), Circumstances{}, nothingSet)
	empty := Environ(Event{}, Circumstances{}, nothingSet)
	if len(full) != len(empty) {
		t.Fatalf("%d variables for an empty event, %d for a full one", len(empty), len(full))
	}
	for i := range full {
		if name, _, _ := strings.Cut(full[i], "="); !strings.HasPrefix(empty[i], name+"=") {
			t.Errorf("%s of an empty event, want %s", empty[i], name)
		}
	}
}

func TestEnvironmentInheritsThreeVariables(t *testing.T) {
	env := Environ(Event{}, Circumstances{}, func(name string) string { return "own-" + name })
	got := strings.Join(env[:3], " ")
	if got != "PATH=own-PATH HOME=own-HOME LANG=own-LANG" || strings.HasPrefix(env[3], "own") {
		t.Errorf("inherited %s", got)
	}
}

func TestTimeoutSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30", 1500 * time.Millisecond: "1.5", 123456 * time.Microsecond: "0.123", time.Hour: "3600",
	} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %s, want %s", d, got, want)
		}
	}
}

// Contracts 3: the object on stdin, byte by byte.
func TestPayloadOfAFullEvent(t *testing.T) {
	want := `{"schema":1,"event":"leader-change","cause":"won-election","seq":42,"time":"2026-03-01T11:00:00.000000005Z",` +
		`"cluster":"home-lab","epoch":{"counter":18446744073709551615,"owner":"b2"},` +
		`"self":{"id":"a1","name":"alpha","addr":"10.0.0.1:7950","priority":10},` +
		`"leader":{"id":"b2","name":"beta","addr":"[fe80::1%eth0]:7950","priority":0},` +
		`"prev_leader":{"id":"c3","name":"gamma","addr":"10.0.0.3:7950"},` +
		`"members":[{"id":"a1","name":"alpha","addr":"10.0.0.1:7950","status":"alive","priority":10,"voter":true},` +
		`{"id":"b2","name":"beta","addr":"[fe80::1%eth0]:7950","status":"alive","priority":0,"voter":false},` +
		`{"id":"d4","name":"delta","addr":"10.0.0.4:7950","status":"dead","priority":5,"voter":true}],` +
		`"mode":"quorum","quorum":2}` + "\n"
	if got := string(Payload(fullEvent(), Circumstances{Seq: 42})); got != want {
		t.Errorf("payload\n%swant\n%s", got, want)
	}
}

func TestPayloadOfAnEmptyEventHasEveryField(t *testing.T) {
	var full, empty map[string]any
	for doc, ev := range map[*map[string]any]Event{&full: fullEvent(), &empty: {}} {
		if err := json.Unmarshal(Payload(ev, Circumstances{}), doc); err != nil {
			t.Fatal(err)
		}
	}
	for field := range full {
		if empty[field] == nil {
			t.Errorf("%s is absent or null in an empty event", field)
		}
	}
}

func TestUnsafeValuesAreEmpty(t *testing.T) {
	for value, want := range map[string]string{
		"alpha-1.lan_x":          "alpha-1.lan_x",
		"[::1]:7950":             "[::1]:7950",
		"":                       "",
		"a b":                    "",
		"$(reboot)":              "",
		"`reboot`":               "",
		"a;reboot":               "",
		"a\nb":                   "",
		"a\x00b":                 "",
		"~root":                  "",
		"a=b":                    "",
		"*":                      "",
		"ünicode":                "",
		strings.Repeat("a", 255): strings.Repeat("a", 255),
		strings.Repeat("a", 256): "",
	} {
		if got := Safe(value); got != want {
			t.Errorf("safe(%q) = %q, want %q", value, got, want)
		}
	}
}

// Verification 6.6: whatever peers call themselves, each entry is NAME=value with
// a value that a shell takes for one word, or none, even under eval.
func FuzzEnvironmentIsEvalSafe(f *testing.F) {
	f.Add("alpha", "10.0.0.1:7950", "won-election", "/run/x")
	f.Add("$(touch /tmp/x)", "a;b", "`id`", "a b")
	f.Add("a\nBULLY_EPOCH=9", "\x00", "'\"", "\\")
	entry := regexp.MustCompile(`\A[A-Z_]+=[A-Za-z0-9._:/\[\]%@+,-]{0,255}\z`)
	f.Fuzz(func(t *testing.T, name, addr, cause, socket string) {
		node := Node{ID: name, Name: name, Addr: addr}
		ev := Event{
			Kind: Kind(cause), Cause: cause, Cluster: name, Mode: cause, Role: name, Self: node, Leader: node, PrevLeader: node,
			Epoch: Epoch{Owner: name}, Members: []Member{{ID: name, Name: name, Addr: addr, Status: cause}},
		}
		c := Circumstances{Socket: socket}
		names := make(map[string]bool)
		for _, v := range Environ(ev, c, nothingSet) {
			if !entry.MatchString(v) {
				t.Errorf("%q is not eval-safe", v)
			}
			key, _, _ := strings.Cut(v, "=")
			if names[key] {
				t.Errorf("%s is there twice", key)
			}
			names[key] = true
		}
		if text := Payload(ev, c); !json.Valid(text) || strings.Count(string(text), "\n") != 1 {
			t.Errorf("payload %q is not one line of JSON", text)
		}
	})
}

// What the fuzz target's pattern claims, asked of a real shell.
func TestSafeMarksSurviveEval(t *testing.T) {
	out, err := exec.Command("/bin/sh", "-c", `eval "printf %s $1"; eval "x=$1"; printf ' %s' "$x"`, "sh", "aZ9"+safeMarks).Output()
	if want := "aZ9" + safeMarks + " aZ9" + safeMarks; err != nil || string(out) != want {
		t.Errorf("eval gave %q (%v), want %q", out, err, want)
	}
}

// What whoever runs a hook does not believe is empty, and numbers are in their ranges.
func TestASaneEvent(t *testing.T) {
	ev := Event{Kind: BecomeLeader, Cause: "a b", Cluster: "lab", Quorum: -1, Attempt: 1 << 30,
		Self: Node{ID: "1", Name: "-n\n", Addr: "10.0.0.1:7950"}, Members: make([]Member, maxMembers+1)}
	ev.Members[0] = Member{Name: "alpha", Status: "$(id)", Priority: 1 << 20}
	got := ev.Sane()
	if got.Cause != "" || got.Cluster != "lab" || got.Self != (Node{ID: "1", Addr: "10.0.0.1:7950"}) {
		t.Errorf("%+v", got)
	}
	if got.Quorum != 0 || got.Attempt != maxTries || len(got.Members) != maxMembers {
		t.Errorf("quorum %d, attempt %d, %d members", got.Quorum, got.Attempt, len(got.Members))
	}
	if m := got.Members[0]; m != (Member{Name: "alpha", Priority: 1<<16 - 1}) || ev.Members[0].Status == "" {
		t.Errorf("%+v, and the caller's %+v", m, ev.Members[0])
	}
}
