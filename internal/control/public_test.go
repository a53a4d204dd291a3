package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asked is what the network gets for one request.
func asked(b Backend, method, target string) (status int, header http.Header, body string) {
	w := httptest.NewRecorder()
	Public(b, nil).ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Code, w.Header(), w.Body.String()
}

// Of the socket's routes the network has these, and of no other as much as the name.
func TestTheNetworkHasThesePathsAndNoOther(t *testing.T) {
	b := &fakeAgent{status: leadingStatus()}
	s := &server{backend: b}
	for _, r := range s.routes() {
		want := http.StatusNotFound
		if slices.Contains(onNetwork, r.path) {
			want = http.StatusOK
		}
		if got, _, body := asked(b, http.MethodGet, r.path); got != want {
			t.Errorf("GET %s: %d, want %d: %s", r.path, got, want, body)
		}
	}
	s.isPublic = true
	for _, r := range s.publicRoutes() {
		path := strings.TrimSuffix(r.path, "{$}")
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "ORDER"} {
			status, header, _ := asked(b, method, path)
			if status != http.StatusMethodNotAllowed || header.Get("Allow") != publicMethods {
				t.Errorf("%s %s: %d, Allow %q", method, path, status, header.Get("Allow"))
			}
		}
		status, header, body := asked(b, http.MethodOptions, path)
		if status >= 400 && status != http.StatusServiceUnavailable || header.Get("Allow") != publicMethods || body != "" {
			t.Errorf("OPTIONS %s: %d, Allow %q, body %q", path, status, header.Get("Allow"), body)
		}
	}
}

// withheld is what the network does not see of each type that it is shown, by its name in
// JSON: all of it, or what is in it of paths, settings and keys. docs/api.md gives reasons.
var withheld = map[string][]string{
	"Status":      {"scheduling", "hosts", "encryption", "waiting", "notes", "keeper", "reader"},
	"Member":      {"lacks_keys"},
	"Hook":        {"error"},
	"JobRun":      {"err"},
	"Job":         {},
	"Check":       {"why"},
	"Explanation": {"takes_back"},
	"Leader":      {},
	"Leadership":  {},
	"Event":       {},
}

// A name that is added to a type is on the network only if somebody has decided that: it is
// shown here as it is, or is in the list above.
func TestWhatTheNetworkSeesOfEachType(t *testing.T) {
	member, run := full[Member](), full[JobRun]()
	hook := full[Hook]()
	status, job := full[Status](), full[Job]()
	event := full[Event]()
	event.Type = "transition"
	for name, tt := range map[string]struct {
		is      any
		through func(answer any) any // what is shown of it, where it is a part of another
	}{
		"Status":      {is: status},
		"Member":      {is: member},
		"Hook":        {is: hook},
		"JobRun":      {is: run},
		"Job":         {is: job},
		"Check":       {is: status.Checks[0]},
		"Explanation": {is: full[Explanation]()},
		"Leader":      {is: full[Leader]()},
		"Leadership":  {is: full[Leadership]()},
		"Event":       {is: event},
	} {
		var answer any = tt.is
		switch name {
		case "Member":
			answer = []Member{member}
		case "Hook":
			status.LastHook = &hook
			answer = status
		case "JobRun":
			job.Last = &run
			answer = []Job{job}
		case "Job":
			answer = []Job{job}
		case "Check":
			answer = status
		case "Leadership":
			answer = []Leadership{full[Leadership]()}
		}
		shown, err := publicView(answer)
		if err != nil {
			t.Fatal(err)
		}
		got := asMap(t, shown)
		switch name {
		case "Hook":
			got = got["last_hook"].(map[string]any)
		case "JobRun":
			got = got["last"].(map[string]any)
		case "Check":
			got = got["checks"].([]any)[0].(map[string]any)
		}
		for key, value := range asMap(t, tt.is) {
			hidden := slices.Contains(withheld[name], key)
			there, isThere := got[key]
			switch {
			case hidden && isThere && there != "":
				t.Errorf("%s.%s is withheld, and shown: %v", name, key, there)
			case !hidden && name != "Status" && name != "Job" && !reflect.DeepEqual(there, value):
				t.Errorf("%s.%s: shown as %v, want %v", name, key, there, value)
			case !hidden && !isThere:
				t.Errorf("%s.%s is not shown: decide, and say so in the list above and in docs/api.md", name, key)
			}
		}
	}
	if _, err := publicView(Keys{}); err == nil {
		t.Error("keys have a view")
	}
}

// full is a value with something in every field.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("/root/x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]uint64{"x": 3}))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(noon))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(fmt.Sprint("no way to fill ", v.Type()))
	}
}

// asMap is the JSON of a value, or of the one in a list.
func asMap(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m, ok := decoded(t, strings.TrimSuffix(strings.TrimPrefix(string(text), "["), "]")).(map[string]any)
	if !ok {
		t.Fatalf("no object: %s", text)
	}
	return m
}

// What takes long to find is not found for strangers.
func TestTheNetworkIsToldFewSlots(t *testing.T) {
	b := &fakeAgent{}
	if status, _, body := asked(b, http.MethodGet, "/v1/jobs?next=11"); status != http.StatusBadRequest || !strings.Contains(body, "0 to 10") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := asked(b, http.MethodGet, "/v1/jobs?next=10"); status != http.StatusOK || b.asked.next != 10 {
		t.Errorf("%d, asked for %d", status, b.asked.next)
	}
}

// Nothing that a command said, and no path, setting or key, is in any answer.
func TestNoSecretIsInAnyAnswer(t *testing.T) {
	const secret = "/root/secret"
	b := &fakeAgent{status: leadingStatus(), members: twoMembers(), history: twoLeaderships()}
	b.status.Notes = []string{secret}
	b.status.Waiting = []Waiting{{Setting: secret, Now: secret, Then: secret}}
	b.status.LastHook.Error, b.status.Keeper.Error = secret, secret
	b.status.Encryption, b.status.Scheduling.Why = secret, secret
	b.status.Self.LacksKeys = []string{secret}
	b.members[1].LacksKeys = []string{secret}
	b.jobs = []Job{{Name: "backup", Last: &JobRun{Err: secret}, Open: []JobRun{{Err: secret}}}}
	for _, kind := range []string{"hook", "keys", "warning", "check", "resource", "new-kind"} {
		b.Append(Event{Type: kind, Cause: "some-cause", Text: "it failed: " + secret})
	}
	s := &server{reading: b, isPublic: true}
	for _, r := range s.publicRoutes() {
		path := strings.TrimSuffix(r.path, "{$}")
		status, _, body := asked(b, http.MethodGet, path)
		if status >= 500 && status != http.StatusServiceUnavailable || body == "" {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if strings.Contains(body, secret) {
			t.Errorf("%s tells %s", path, body)
		}
	}
	var texts []string
	_, _, body := asked(b, http.MethodGet, "/v1/events")
	for line := range strings.Lines(body) {
		texts = append(texts, decoded(t, line).(map[string]any)["text"].(string))
	}
	if diff := cmp.Diff([]string{"it failed", "keys: some-cause", "warning: some-cause", "check: some-cause", "resource: some-cause", "new-kind: some-cause"}, texts); diff != "" {
		t.Error(diff)
	}
	if b.members[1].LacksKeys == nil || b.jobs[0].Open[0].Err == "" || b.status.LastHook.Error == "" {
		t.Error("what the agent has was changed, not what is shown of it")
	}
}

// What a check has printed, an error of the disk and the settings of another host are not
// for the network: the word is.
func TestExplainShowsTheNetworkNoPaths(t *testing.T) {
	e := Explanation{Reasons: []Reason{{"disk", false, "write /var/lib/x: no space"}, {"check", false, "check nginx fails: secret"},
		{"aside", false, "lease 1s there"}, {"resource", false, "resource vip has failed: secret"}, {"hook", false, "the become-leader hook failed: secret"}, {"link", false, "the link is down"}, {"disk", true, "disk writes"}}}
	var got []string
	for _, r := range e.public().Reasons {
		got = append(got, r.Text)
	}
	if want := []string{"disk", "check", "aside", "resource", "hook", "the link is down", "disk writes"}; !slices.Equal(got, want) {
		t.Errorf("shows %q, want %q", got, want)
	}
}
