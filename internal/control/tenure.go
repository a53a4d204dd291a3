package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Tenure is a place among those who hold the agent's lease, and the line on which the
// agent says what becomes of it. The agent, if it hands over, waits for the end of the
// connection. It is for one goroutine, except for Interrupt and Close.
type Tenure struct {
	client *Client
	ctx    context.Context
	conn   *net.UnixConn
	lines  *bufio.Reader
	heard  []byte      // of a line that has not ended
	forget func() bool // the context's end is no concern any more
}

// HoldLease enters as a holder of the lease: until the Tenure's end the agent, if it hands
// over, waits for it, up to grace. Whoever runs something on the strength of the lease
// closes the Tenure when that has ended. patience bounds the wait for the agent's answer,
// and is AnswerPatience for whoever does not know better.
// The end of ctx closes the connection.
func (c *Client) HoldLease(ctx context.Context, grace, patience time.Duration) (*Tenure, error) {
	t, err := c.hold(ctx, grace, patience)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return t, nil
}

// hold asks in HTTP/1.0, in which an answer that has no end is sent as it stands: whoever
// is handed the connection in the middle of it can read on.
func (c *Client) hold(ctx context.Context, grace, patience time.Duration) (*Tenure, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	t := &Tenure{client: c, ctx: ctx, conn: conn.(*net.UnixConn), lines: bufio.NewReader(conn)}
	t.forget = context.AfterFunc(ctx, func() { conn.Close() })
	query := url.Values{"follow": {"true"}, "grace": {grace.String()}}
	late := time.AfterFunc(patience, t.Interrupt)
	_, err = io.WriteString(conn, "GET /v1/lease?"+query.Encode()+" HTTP/1.0\r\n\r\n")
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(t.lines, nil)
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = readRefusal(resp)
	}
	if !late.Stop() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Next waits for the next that the agent says of its lease: at first how it is, then each
// change and renewal. It returns ErrUnreachable when the agent has gone, and
// os.ErrDeadlineExceeded after Interrupt.
func (t *Tenure) Next() (Lease, error) {
	text, err := t.lines.ReadBytes('\n')
	t.heard = append(t.heard, text...)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Lease{}, err
	case t.ctx.Err() != nil:
		return Lease{}, t.client.explain(t.ctx, t.ctx.Err())
	case err != nil:
		return Lease{}, t.client.Gone()
	}
	line := t.heard
	t.heard = nil
	lease, err := ReadLease(line)
	if err != nil {
		return Lease{}, t.client.explain(t.ctx, err)
	}
	return lease, nil
}

// ReadLease reads one line of the answer to a holder.
func ReadLease(line []byte) (l Lease, err error) {
	if err = json.Unmarshal(line, &l); err != nil {
		err = fmt.Errorf("decode lease: %w", err)
	}
	return l, err
}

// Gone is the error of whoever followed an agent that has ended, or has been killed.
func (c *Client) Gone() error {
	return fmt.Errorf("%w at %s: it stopped or was killed", ErrUnreachable, c.path)
}

// Interrupt has Next return, now and later; nothing is lost to whoever reads on.
func (t *Tenure) Interrupt() { _ = t.conn.SetReadDeadline(time.Unix(1, 0)) }

// PassOn gives a duplicate of the connection, and what has been read of it beyond the last
// whole line, for another process to follow the lease on. The caller closes the duplicate
// and calls Next no more. To the agent the holder is there until both have closed theirs,
// or one of them has shut the connection down.
func (t *Tenure) PassOn() (file *os.File, heard []byte, err error) {
	waiting, _ := t.lines.Peek(t.lines.Buffered()) // what is there can be had
	heard = append(t.heard[:len(t.heard):len(t.heard)], waiting...)
	raw, err := t.conn.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("pass on the lease: %w", err)
	}
	fd := -1
	failed := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err = errors.Join(failed, err); err != nil {
		return nil, nil, fmt.Errorf("pass on the lease: %w", err)
	}
	return os.NewFile(uintptr(fd), "lease"), heard, nil
}

// Close ends the tenure, unless somebody has a duplicate of the connection.
func (t *Tenure) Close() {
	t.forget()
	t.conn.Close()
}
