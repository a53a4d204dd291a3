package agent

import (
	"context"
	"io"
	"net/http"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/record"
	"github.com/bully-agent/bully-agent/membership"
)

// errNotRecorded is returned where there is no flight recorder to read.
var errNotRecorded = &control.APIError{Status: http.StatusConflict, Code: "not_recorded", Message: "this agent records nothing",
	Hint: `set record = "16MiB" in [log] and restart it`}

// Record implements control.RecordBackend. The loop copies a segment at a time: all of
// them at once would take it milliseconds. What is overwritten meanwhile was the oldest.
func (a *agent) Record(ctx context.Context, to io.Writer) error {
	var out []byte
	var number, end, written uint64
	head := record.Header{Version: a.cfg.Version, Schema: record.Schema(), Cluster: a.cfg.Cluster}
	isRecorded := false
	if !a.call(ctx.Done(), func() { number, end, isRecorded = a.recordHead(&head) }) {
		return errGone
	}
	if !isRecorded {
		return errNotRecorded
	}
	out = record.AppendHeader(nil, &head)
	for {
		if _, err := to.Write(out); err != nil {
			return err
		}
		if number == end {
			_, err := to.Write(record.AppendEnd(nil, written))
			return err
		}
		isThere := false
		if !a.call(ctx.Done(), func() { out, isThere = a.seat.flight.ring.AppendSegment(out[:0], number) }) {
			return errGone
		}
		if number++; isThere {
			written++
		}
	}
}

// recordHead says whose record it is, and gives the numbers of its segments, if there is
// any.
func (a *agent) recordHead(h *record.Header) (first, end uint64, isRecorded bool) {
	if a.seat.flight == nil {
		return 0, 0, false
	}
	self := a.view.self
	h.Self, h.Incarnation, h.Nonce = recordName(self), self.Incarnation, self.Nonce
	h.Now, h.Wall = a.cfg.Now(), wallClock()
	for _, m := range a.view.others {
		h.Members = append(h.Members, recordName(m))
	}
	first, end = a.seat.flight.ring.Segments()
	return first, end, true
}

func recordName(m membership.Member) record.Name {
	return record.Name{ID: m.ID.String(), Name: m.Name, Addr: m.Addr}
}
