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
	of, err := ask(ctx, a, a.recorded)
	if err != nil {
		return err
	}
	out, written := record.AppendHeader(nil, &of.head), uint64(0)
	for number := of.first; ; number++ {
		if _, err := to.Write(out); err != nil {
			return err
		}
		if number == of.end {
			_, err := to.Write(record.AppendEnd(nil, written))
			return err
		}
		room := out[:0]
		if out, err = ask(ctx, a, func() ([]byte, error) {
			segment, _ := a.seat.flight.ring.AppendSegment(room, number)
			return segment, nil
		}); err != nil {
			return err
		}
		if len(out) > 0 { // it was not overwritten meanwhile
			written++
		}
	}
}

// recording is whose record there is, and the numbers of its segments.
type recording struct {
	head       record.Header
	first, end uint64
}

// recorded belongs to the loop.
func (a *agent) recorded() (r recording, err error) {
	if a.seat.flight == nil {
		return r, errNotRecorded
	}
	self := a.view.self
	r.head = record.Header{Version: a.cfg.Version, Schema: record.Schema(), Cluster: a.cfg.Cluster, Self: recordName(self),
		Incarnation: self.Incarnation, Nonce: self.Nonce, Now: a.cfg.Now(), Wall: wallClock()}
	for _, m := range a.view.others {
		r.head.Members = append(r.head.Members, recordName(m))
	}
	r.first, r.end = a.seat.flight.ring.Segments()
	return r, nil
}

func recordName(m membership.Member) record.Name {
	return record.Name{ID: m.ID.String(), Name: m.Name, Addr: m.Addr}
}
