package control

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func following() Status {
	s := leadingStatus()
	s.Role, s.State, s.Leader, s.LeaderIsSelf, s.LeaseRemainMS = "follower", "follow", &beta, false, nil
	return s
}

// The status says it, to GET, HEAD and OPTIONS alike.
func TestHealth(t *testing.T) {
	change := func(of Status, by func(*Status)) Status { by(&of); return of }
	over := int64(0)
	for name, tt := range map[string]struct {
		status                                Status
		age                                   time.Duration
		leader, follower, health, live, ready int
	}{
		"leads":              {leadingStatus(), 0, 200, 503, 200, 200, 200},
		"follows":            {following(), 0, 503, 200, 200, 200, 200},
		"hook still runs":    {change(leadingStatus(), func(s *Status) { s.Ready = false }), 0, 503, 503, 200, 200, 503},
		"lease over":         {change(leadingStatus(), func(s *Status) { s.LeaseRemainMS = &over }), 0, 503, 503, 200, 200, 200},
		"no lease":           {change(leadingStatus(), func(s *Status) { s.LeaseRemainMS = nil }), 0, 503, 503, 200, 200, 200},
		"knows no leader":    {change(following(), func(s *Status) { s.Leader, s.Ready = nil, false }), 0, 503, 503, 200, 200, 503},
		"steps down":         {change(leadingStatus(), func(s *Status) { s.LeaderIsSelf, s.Ready = false, false }), 0, 503, 503, 200, 200, 503},
		"loop stands still":  {following(), time.Minute, 503, 200, 200, 503, 200},
		"knows nothing, yet": {Status{}, 0, 503, 503, 200, 200, 503},
	} {
		tt.status.LoopAgeMS = tt.age.Milliseconds()
		b := &fakeAgent{status: tt.status}
		for path, want := range map[string]int{"/leader": tt.leader, "/follower": tt.follower, "/health": tt.health, "/livez": tt.live, "/readyz": tt.ready} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
				got, _, body := asked(b, method, path)
				if got != want || (method == http.MethodOptions) == (body != "") {
					t.Errorf("%s: %s %s: %d %q, want %d", name, method, path, got, body, want)
				}
			}
			_, _, body := asked(b, http.MethodGet, path)
			answer := decoded(t, body).(map[string]any)
			if isFine := want == http.StatusOK; answer["ok"] != isFine || (answer["why"] == "") != isFine {
				t.Errorf("%s: %s says %s", name, path, body)
			}
		}
	}
}

// Clients of the old leader-elector of Kubernetes find their leader in name.
func TestElector(t *testing.T) {
	for _, tt := range []struct {
		status Status
		want   string
	}{
		{following(), `{"name":"beta","leader":{"id":"` + betaID + `","name":"beta","addr":"10.0.0.2:7950"}}`},
		{Status{}, `{"name":"","leader":null}`},
	} {
		status, _, body := asked(&fakeAgent{status: tt.status}, http.MethodGet, "/")
		if diff := cmp.Diff(tt.want+"\n", body); diff != "" || status != http.StatusOK {
			t.Errorf("%d %s", status, diff)
		}
	}
}
