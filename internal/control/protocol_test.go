package control

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata from what the code says now")

const (
	alphaID = "3f2a9c01-5d1e-4b7a-9c55-0d6c1f2e8a10"
	betaID  = "8c41d7aa-02fb-4e0c-8f3d-77b9a1c4e522"
)

var (
	alpha = Node{ID: alphaID, Name: "alpha", Addr: "10.0.0.1:7950"}
	beta  = Node{ID: betaID, Name: "beta", Addr: "10.0.0.2:7950"}
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 250_000_000, time.UTC)
)

func leadingStatus() Status {
	remain := int64(287)
	return Status{
		Version: "0.1.0", Cluster: "home-lab",
		Self: Member{ID: alphaID, Name: "alpha", Addr: alpha.Addr, Status: "alive", Role: "voter",
			Priority: 100, Voter: true, Self: true, Leader: true, Incarnation: 4},
		Role: "leader", State: "lead", Cause: "claim-won",
		Leader: &alpha, LeaderIsSelf: true, Ready: true,
		Epoch: Epoch{Counter: 7, Owner: alphaID}, Since: noon, Uptime: 12.5,
		Mode: "quorum", Promise: "At most one leader at any instant.",
		Algorithm: "classic", Preempt: "priority", Profile: "lan",
		Expect: 3, Roster: &Roster{Version: 112, Formed: true, Voters: []Voter{{ID: alphaID, Name: "alpha", Alive: true, Self: true}, {ID: betaID}}},
		Quorum: &Quorum{Need: 2, Have: 3}, Members: 4, Alive: 3, Silent: []string{"delta"},
		LeaseRemainMS: &remain, Bars: []string{"maintenance"},
		Checks:      []Check{{Name: "nginx", State: "fails", Since: noon, Why: "exit status 7", OnFail: "ineligible"}},
		Resources:   []Resource{{Name: "web", What: "unit web.service", Here: true, OnFail: "hand-over", Text: "active"}},
		Maintenance: &Maintenance{Reason: "kernel upgrade", Until: noon},
		LastHook:    &Hook{Event: "become-leader", Epoch: Epoch{7, alphaID}, OK: true, TookMS: 31.5, Time: noon, Attempts: 1},
		Keeper:      &Keeper{Process: 4242},
		Scheduling:  Scheduling{Policy: "realtime", Memory: "locked"},
		Hosts:       HostList{Digest: "206da55822aaab0b", Listed: 2, LeftOut: []LeftOut{}, LeftOutBy: []LeftOut{}},
		Encryption:  "none: each host that reaches the port can join",
		Waiting:     []Waiting{{Setting: "election.expect", Now: "3", Then: "5"}},
		Notes:       []string{"traffic is not encrypted"},
		Counters:    map[string]uint64{"frames_dropped_total": 3, "elections_total": 2},
	}
}

func twoMembers() []Member {
	age := int64(12)
	return []Member{
		{ID: alphaID, Name: "alpha", Addr: alpha.Addr, Status: "alive", Role: "voter", Priority: 100, Voter: true,
			Leader: true, Incarnation: 4, RTTMS: 0.42, HeardMS: &age},
		{ID: betaID, Name: "beta", Addr: beta.Addr, Status: "suspect", Role: "observer", Self: true, Incarnation: 1},
	}
}

func twoLeaderships() []Leadership {
	return []Leadership{
		{Epoch: Epoch{6, betaID}, Leader: beta, From: noon.Add(-time.Hour), To: noon.Add(-time.Second), Began: "boot", Ended: "lease-expired"},
		{Epoch: Epoch{7, alphaID}, Leader: alpha, From: noon, Began: "claim-won", Self: true},
	}
}

// twoHostsKeys is in the middle of a rotation.
func twoHostsKeys() Keys {
	return Keys{File: "/etc/bully-agent/key", Sealed: true, Keys: []string{"4f1c9a02", "9b3e1f77"}, Join: []string{"10.0.0.2:7950"}, Hosts: []HostKeys{
		{ID: alphaID, Name: "alpha", Addr: alpha.Addr, Status: "alive", Self: true, Keys: []string{"4f1c9a02", "9b3e1f77"}, Uses: []string{}},
		{ID: betaID, Name: "beta", Addr: beta.Addr, Status: "alive", Keys: []string{"4f1c9a02"}, Uses: []string{"4f1c9a02"}},
	}}
}

// What has no keys is an empty list, over which a reader can go.
func TestKeysAreAnswered(t *testing.T) {
	agent := &fakeAgent{keys: Keys{UID: 7950, Insecure: true, Hosts: []HostKeys{{Name: "alpha", Self: true}}}}
	served := serveAgent(t, agent, nil)
	if _, body := request(t, served.path, "GET", "/v1/keys", ""); body != `{"file":"","uid":7950,"insecure":true,"sealed":false,"keys":[],`+
		`"join":[],"hosts":[{"id":"","name":"alpha","addr":"","status":"","self":true,"listed":false,"keys":[],"uses":[]}]}`+"\n" {
		t.Errorf("answered %s", body)
	}
	agent.keys = twoHostsKeys()
	got, err := Dial(served.path).Keys(t.Context())
	if diff := cmp.Diff(twoHostsKeys(), got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

// Scripts outlive agents: the files in testdata are the names and the shapes
// that users' jq filters rely on.
func TestJSONIsPinned(t *testing.T) {
	idle := Status{Silent: []string{}, Waiting: []Waiting{}, Notes: []string{}, Counters: map[string]uint64{}}
	tests := map[string]any{
		"status_leading": leadingStatus(),
		"status_zero":    idle,
		"members":        twoMembers(),
		"history":        twoLeaderships(),
		"leader":         Leader{Node: alpha, Epoch: Epoch{7, alphaID}, Self: true, Ready: true, Since: noon},
		"event_full": Event{Seq: 9, Time: noon, Type: "transition", Role: "leader", Cause: "claim-won", Member: "alpha",
			Leader: "alpha", Text: "became leader", Epoch: &Epoch{7, alphaID}, DurationMS: 412.5},
		"event_short": Event{Seq: 1, Time: noon, Type: "start", Text: "agent started"},
		"lease":       leading(),
		"ok_to_stop":  okToStop(),
		"hooks":       hookAgent().settings,
		"hook_run":    failedRun(),
		"keys":        twoHostsKeys(),
		"job":         jobOfTest,
		"refusal":     &APIError{Status: 404, Message: "no leader is known", Hint: "wait", Code: codeNoLeader},
	}
	for name, v := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs; a name or a unit never changes within /v1:\n%s", file, cmp.Diff(string(want), string(got)))
			}
		})
	}
}
