package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// viewers are browsers that show the live page of one host: what internal/page/static asks for, as often as it does while
// that host leads. They sit at the switch, at an address for every eight of them: a host takes so many connections from one.
type viewers struct {
	lan     *lan
	address string
	stop    context.CancelFunc
	ended   sync.WaitGroup

	loads, answers, events atomic.Int64
	failed                 atomic.Pointer[string]
}

const (
	viewersOfOne = 8 // addresses' share
	pagePort     = 7951
)

var asked = []struct {
	path  string
	every time.Duration
}{{"v1/status", 250 * time.Millisecond}, {"v1/members", time.Second}, {"v1/jobs", 2 * time.Second}, {"v1/history", 10 * time.Second}}

// watch has n viewers look at the host until close.
func (l *lan) watch(h *host, n int) *viewers {
	ctx, cancel := context.WithCancel(l.t.Context())
	v := &viewers{lan: l, address: fmt.Sprintf("http://%s:%d/", h.addr.Addr(), pagePort), stop: cancel}
	for i := range n {
		from := l.seat(i / viewersOfOne)
		v.ended.Go(func() {
			if err := v.look(ctx, from); err != nil && ctx.Err() == nil {
				text := err.Error()
				v.failed.Store(&text)
			}
		})
	}
	return v
}

func (v *viewers) close() {
	v.lan.t.Helper()
	v.stop()
	v.ended.Wait()
	if text := v.failed.Load(); text != nil {
		v.lan.t.Errorf("a viewer: %s", *text)
	}
}

// seat is the ith address of viewers, beside the switch's own.
func (l *lan) seat(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 78, l.number, byte(200 + i)})
}

// files are what a file of the page names.
var files = regexp.MustCompile(`"(?:\./|page/)?(\w+\.(?:css|js|svg))"`)

// look loads the page with its files, follows the events on one connection and asks on another.
func (v *viewers) look(ctx context.Context, from netip.Addr) error {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, DialContext: func(ctx context.Context, network, to string) (c net.Conn, err error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
		inside := v.lan.net.Switch().Within(func() error { c, err = dialer.DialContext(ctx, network, to); return nil })
		if inside != nil {
			return nil, inside
		}
		return c, err
	}}}
	defer client.CloseIdleConnections()
	get := func(path, accept string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.address+path, nil)
		if err != nil {
			return "", err
		}
		r.Header.Set("Accept", accept)
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("%s: %s", path, resp.Status)
		}
		body, err := io.ReadAll(resp.Body)
		v.answers.Add(1)
		return string(body), err
	}
	queue, seen := []string{""}, map[string]bool{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		body, err := get(path, "text/html")
		if err != nil {
			return err
		}
		for _, m := range files.FindAllStringSubmatch(body, -1) {
			if next := "page/" + m[1]; !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	if len(seen) < 10 {
		return fmt.Errorf("the page has %d files: the viewer does not read it as a browser does", len(seen))
	}
	v.loads.Add(1)
	v.ended.Go(func() { v.follow(ctx, client) })
	due := make([]time.Time, len(asked))
	for ctx.Err() == nil {
		for i, q := range asked {
			if time.Now().Before(due[i]) {
				continue
			}
			if _, err := get(q.path, "*/*"); err != nil {
				return err
			}
			due[i] = time.Now().Add(q.every)
		}
		select {
		case <-time.After(time.Until(slices.MinFunc(due, time.Time.Compare))):
		case <-ctx.Done():
		}
	}
	return nil
}

func (v *viewers) follow(ctx context.Context, client *http.Client) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.address+"v1/events", nil)
	if err != nil {
		return
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			v.events.Add(1)
		}
	}
}

// Two dozen people look at the leader's page, and the election does not notice. The log has the rhythm of the heartbeats and
// the agent's processor time with and without them, in turns: the machine has other things to do.
func TestViewersDoNotDisturbTheElection(t *testing.T) {
	const (
		people = 24
		turns  = 3
		turn   = 6 * time.Second
	)
	l := newLAN(t, 3, "--http-listen", fmt.Sprintf("0.0.0.0:%d", pagePort), "--log-level", "info")
	for i := range people / viewersOfOne {
		l.ip(l.net.Switch(), "addr add "+l.seat(i).String()+"/24 dev "+netlab.Bridge)
	}
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	changes := transitions(l.hosts)
	heart := l.watchHeart(best, next)
	measure := func(when string) {
		begun, spent := time.Now(), best.cpuTime()
		time.Sleep(turn) // this is a measurement, not a wait
		heart.logRhythm(t, when, begun)
		t.Logf("  the leader's agent: %.1f %% of a core", 100*float64(best.cpuTime()-spent)/float64(time.Since(begun)))
	}
	for range turns {
		measure("without viewers")
		v := l.watch(best, people)
		measure(fmt.Sprintf("with %d viewers", people))
		v.close()
		t.Logf("  %d pages loaded, %d answers, %d events", v.loads.Load(), v.answers.Load(), v.events.Load())
		if v.loads.Load() != people || v.events.Load() == 0 {
			t.Errorf("%d of %d viewers have the page, and %d events came", v.loads.Load(), people, v.events.Load())
		}
	}
	if now := transitions(l.hosts); !slices.Equal(now, changes) {
		t.Errorf("meanwhile: %v, before: %v", now, changes)
	}
	l.led(best)
}
