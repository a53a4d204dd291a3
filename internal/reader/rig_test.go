package reader

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// This program is the readers of its tests, too: as it should be, one that ends at once, and one that says nothing.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Word:
			os.Exit(Main())
		case "dies":
			os.Exit(3)
		case "hangs":
			time.Sleep(time.Hour)
		case "lacks":
			lack()
		}
	}
	goleak.VerifyTestMain(m)
}

// lack is a reader that says of more than there is room for that it lacks it, and then a line.
func lack() {
	keeper := os.NewFile(sidecar.SocketFD, "keeper")
	for i := range linesAtOnce - 1 {
		_, _ = fmt.Fprintf(keeper, "%cno Landlock\n%d, %s", isLack, i, strings.Repeat("x", mostLine/linesAtOnce))
	}
	_, _ = fmt.Fprintf(keeper, `%c{"Level":3,"Text":"said all"}`, isLine)
	time.Sleep(time.Hour)
}

// bound is how long a test waits for what must happen; a pass never waits it out.
const bound = 30 * time.Second

// fakeAgent is a Source that says what a test puts into it.
type fakeAgent struct {
	control.Ring

	mu      sync.Mutex
	status  control.Status
	members []control.Member
	history []control.Leadership
	jobs    []control.Job
	why     control.Explanation
	err     error         // of jobs and explanations
	disk    chan struct{} // metrics wait for it; nil: they do not
	asked   int           // for the status
}

func (f *fakeAgent) Status() control.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.status
}

func (f *fakeAgent) set(change func(*fakeAgent)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeAgent) Members() []control.Member     { return f.members }
func (f *fakeAgent) History() []control.Leadership { return f.history }

func (f *fakeAgent) Jobs(context.Context, int) ([]control.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.jobs), f.err
}

func (f *fakeAgent) Explain(_ context.Context, member string) (control.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.why
	e.Headline += member
	return e, f.err
}

func (f *fakeAgent) Metrics(string, bool) ([]byte, string, error) { panic("BUG: they are passed on") }

func (f *fakeAgent) Families(bool) ([]byte, error) {
	if f.disk != nil {
		<-f.disk
	}
	return nil, nil
}

// full fills every field of a value, so that what is not passed on is missed.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem(), 1)
	return v
}

var noon = time.Date(2026, 11, 28, 12, 0, 0, 250_000_001, time.FixedZone("", 3600))

func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(noon.Add(time.Duration(n) * time.Minute)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n+i)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("transition_boot"), reflect.ValueOf(uint64(n)))
	case reflect.String:
		v.SetString(fmt.Sprintf("<text> %d & ü", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) + 1.0/3)
	default:
		panic("BUG: no value of " + v.Type().String())
	}
}

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// fed is a feed that runs.
type fed struct {
	*Feed
	agent *fakeAgent
	log   *lines
	stop  func()
}

func feed(t *testing.T, cfg httpd.Config, agent *fakeAgent) fed {
	t.Helper()
	cfg.Listen = anyPort
	f, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx, agent, log.logger("http"))
	}()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(func() { stop(); f.Close() })
	return fed{f, agent, log, stop}
}

// remote is a reader in this process that has something to read.
func (f fed) remote(t *testing.T) *remote {
	t.Helper()
	r := f.silent(t)
	if !r.await(ofPort) || !r.await(ofHost) || !r.await(ofEvents) {
		t.Fatal("the feed has ended")
	}
	return r
}

// silent is a reader in this process, whoever feeds it.
func (f fed) silent(t *testing.T) *remote {
	t.Helper()
	socket, err := waiting(f.door.socket)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRemote(f.door.boards, socket, 1000)
	if err != nil {
		t.Fatal(err)
	}
	go r.hear()
	t.Cleanup(func() { f.stop(); f.socket.Close(); <-r.gone; socket.Close() })
	return r
}

// kept is a keep of readers that are processes.
type kept struct {
	*Keep
	log *lines

	mu     sync.Mutex
	states []State
}

// keep has readers run on copies of a feed's door, as a keeper has.
func (f fed) keep(t *testing.T, r rule, word string) *kept {
	t.Helper()
	k := &kept{log: &lines{}}
	k.Keep = f.copyOfDoor(t).keep([]string{sidecar.Program, word}, r, func(s State) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.states = append(k.states, s)
	}, k.log.logger("reader"))
	t.Cleanup(func() { k.end(t) })
	return k
}

func (f fed) copyOfDoor(t *testing.T) *Door {
	t.Helper()
	d := &Door{}
	for i, to := range []**os.File{&d.port, &d.boards, &d.socket} {
		from := f.door.Files()[i]
		fd, err := duplicate(int(from.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		*to = os.NewFile(uintptr(fd), from.Name())
	}
	return d
}

func (k *kept) end(t *testing.T) {
	t.Helper()
	k.End()
	select {
	case <-k.Over():
	case <-time.After(bound):
		t.Error("the keep does not end")
	}
}

// process waits for a reader other than that one, and gives its id.
func (k *kept) process(t *testing.T, other int) (pid int) {
	t.Helper()
	until(t, "a reader", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		if n := len(k.states); n > 0 {
			pid = k.states[n-1].Process
		}
		return pid != 0 && pid != other
	})
	return pid
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(bound); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("in %v there was not %s", bound, what)
		}
	}
}

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Output: l, Level: hclog.Debug})
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// get asks a reader over the network.
func (f fed) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + f.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
