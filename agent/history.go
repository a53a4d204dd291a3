package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
)

const (
	historyName = "history.json"
	historySize = 200

	// historyDelay is how long a change waits for the disk: until the hooks of a
	// failover have started, which the writing of five hosts' histories on one disk
	// held up by milliseconds. A crash within it loses the newest rows. Arbitrary
	// beyond that.
	historyDelay = time.Second
)

// history keeps the last leaderships that this agent saw, its own and others',
// on disk. It is for people: losing its newest entry in a crash is no harm, so
// the loop hands it over and never waits for the disk.
type history struct {
	path  string
	log   hclog.Logger
	dirty chan struct{} // capacity 1: something is to be written

	mu   sync.Mutex
	list []control.Leadership // oldest first; the last may still be on
}

// openHistory reads the file. One that cannot be read is kept aside: it must
// not keep the agent from starting.
func openHistory(dir string, log hclog.Logger) (*history, error) {
	h := &history{path: filepath.Join(dir, historyName), log: log, dirty: make(chan struct{}, 1)}
	content, err := durable.ReadFile(h.path)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &h.list)
		h.loseSight()
	}
	if err != nil {
		aside := h.path + ".bad"
		log.Warn("history not readable; kept under another name and begun anew", "file", aside, "err", err)
		h.list = nil
		if err := os.Rename(h.path, aside); err != nil {
			return nil, refusal("", "history: %w", err)
		}
	}
	return h, nil
}

// loseSight: this agent does not know when the leadership that was on in its
// former life ended.
func (h *history) loseSight() {
	if n := len(h.list); n > 0 && h.list[n-1].To.IsZero() {
		h.list[n-1].Ended = string(election.UncleanRestarted)
	}
}

// record ends the leadership that is on, with the cause and the time of its end,
// and begins the next one; a zero one is a time without a leader.
func (h *history) record(next control.Leadership, cause string, end time.Time) {
	h.mu.Lock()
	if n := len(h.list); n > 0 && h.list[n-1].To.IsZero() && h.list[n-1].Ended == "" {
		last := &h.list[n-1]
		last.Ended, last.To = cause, end
		if end.Before(last.From) {
			last.To = last.From // the clock was set back
		}
	}
	if next.Leader.ID != "" {
		h.list = append(h.list, next)
	}
	h.list = h.list[max(len(h.list)-historySize, 0):]
	h.mu.Unlock()
	h.changed()
}

// name puts a member's name where a leader was recorded that was not known yet.
func (h *history) name(member control.Node) {
	h.mu.Lock()
	isNews := false
	for i := range h.list {
		if l := &h.list[i].Leader; l.ID == member.ID && l.Addr == "" {
			*l, isNews = member, true
		}
	}
	h.mu.Unlock()
	if isNews {
		h.changed()
	}
}

// changed has the list written.
func (h *history) changed() {
	select {
	case h.dirty <- struct{}{}:
	default: // it is to be written already
	}
}

func (h *history) all() []control.Leadership {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

// run writes the newest state, a while after it has changed, until ctx ends, and once
// more then.
func (h *history) run(ctx context.Context) {
	defer h.write()
	for {
		select {
		case <-h.dirty:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(historyDelay):
			h.write()
		case <-ctx.Done():
			return
		}
	}
}

func (h *history) write() {
	content, err := json.MarshalIndent(h.all(), "", " ")
	if err == nil {
		err = durable.Replace(h.path, append(content, '\n'))
	}
	if err != nil {
		h.log.Debug("history not written", "err", err)
	}
}
