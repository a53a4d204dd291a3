package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Faults on recorded hosts: replayed, the same comes of each life's record, and all of
// them are one timeline.
func TestRecordsOfChaosReplay(t *testing.T) {
	isLong(t)
	t.Parallel()
	l := newLAN(t, 5, "--expect", "5")
	l.hasRoomToLetGo()
	l.isRecorded = true
	c := chaosOn(l)
	c.run(time.Minute, map[string]func(){
		"kill":         func() { h := c.any(); h.kill(); c.settle(); h.start() },
		"kill leader":  func() { h := c.leader(); h.kill(); c.settle(); h.start() },
		"stop leader":  func() { h := c.leader(); c.stop(h); h.start() },
		"cut leader":   func() { h := c.leader(); l.cut(h); c.settle(h); l.plug(h) },
		"pause leader": c.pauseWithinLease,
	})
	l.replays()
}

// record takes out what the agent has recorded of this life.
func (h *host) record() error {
	if h.agent == nil {
		return nil
	}
	h.lives++
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	f, err := os.Create(filepath.Join(h.dir, fmt.Sprintf("%s-%d.rec", h.name, h.lives)))
	if err != nil {
		return err
	}
	return errors.Join(h.client.Record(ctx, f), f.Close())
}

// recordBefore takes the record of an agent that is about to be ended, where the test
// wants it.
func (h *host) recordBefore() {
	h.lan.t.Helper()
	if !h.lan.isRecorded {
		return
	}
	if _, err := h.status(); err != nil {
		return // it has not begun
	}
	must(h.lan.t, h.record())
}

// replays plays all records of a LAN again.
func (l *lan) replays() {
	l.t.Helper()
	for _, h := range l.hosts {
		h.recordBefore()
	}
	files, err := filepath.Glob(filepath.Join(l.dir, "h*", "*.rec"))
	must(l.t, err)
	size := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		must(l.t, err)
		size += info.Size()
	}
	begun := time.Now()
	steps, leaderships := uint64(0), 0
	for some := range slices.Chunk(files, atOnce) {
		n, led := l.replay(some)
		steps, leaderships = steps+n, leaderships+led
	}
	if leaderships == 0 || len(files) < len(l.hosts) {
		l.t.Errorf("%d leaderships in %d records", leaderships, len(files))
	}
	l.t.Logf("%d records, %d bytes: %d steps replayed in %v, %d leaderships (%d become hooks)", len(files), size, steps,
		time.Since(begun).Round(time.Millisecond), leaderships, len(l.journal.becomes()))
}

// atOnce is how many records replay takes, and a few less.
const atOnce = 200

// replay plays some records again, and counts their steps and leaderships.
func (l *lan) replay(files []string) (steps uint64, leaderships int) {
	l.t.Helper()
	out, code := l.hosts[0].cli(append([]string{"replay", "--json"}, files...)...)
	if code != 0 {
		l.t.Errorf("replay of %d records exits %d: it ends with\n%s", len(files), code, out[max(0, len(out)-4000):])
	}
	last := time.Time{}
	for text := range strings.Lines(out) {
		var line struct {
			Type    string
			Time    time.Time
			Steps   uint64
			Effects []string
		}
		must(l.t, json.Unmarshal([]byte(text), &line))
		if line.Type == "step" && line.Time.Before(last) {
			l.t.Fatalf("the timeline goes back, from %v: %s", last, text)
		}
		last, steps = line.Time, steps+line.Steps
		if slices.ContainsFunc(line.Effects, func(e string) bool { return strings.Contains(e, " → lead ") }) {
			leaderships++
		}
	}
	return steps, leaderships
}

// recordingRate is how many bytes the agent has recorded in a second, and for how long the
// default memory lasts so.
func (h *host) recordingRate() string {
	h.lan.t.Helper()
	if os.Getenv("BULLY_RECORD") == "off" {
		return "nothing"
	}
	size := func() float64 {
		var b bytes.Buffer
		must(h.lan.t, h.client.Record(h.lan.t.Context(), &b))
		return float64(b.Len())
	}
	const watched = 4 * time.Second
	before := size()
	time.Sleep(watched) // this is a measurement, not a wait
	rate := (size() - before) / watched.Seconds()
	return fmt.Sprintf("%.0f bytes/s: 16 MiB last %.1f h", rate, 16<<20/rate/3600)
}
