package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// AnswerPatience bounds a question, which a living agent answers within
// milliseconds. Commands take as long as their context lets them.
const AnswerPatience = 5 * time.Second

// Client calls the agent that listens on one socket. Each call is a connection
// of its own. It is safe for use by several goroutines and needs no closing.
type Client struct {
	path     string
	patience time.Duration // for the answer to a question
	http     http.Client
}

// Dial returns a client of the agent at path. It does not connect yet, so that
// a client outlives restarts of the agent.
func Dial(path string) *Client {
	c := &Client{path: path, patience: AnswerPatience}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }
	c.http.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return c
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	if err := checkPath(c.path); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	if err := checkListener(c.path, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// errForeign is why nothing is told to whoever listens.
var errForeign = errors.New("the listener is not to be trusted")

// Status asks the agent about itself.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, c, "/v1/status")
}

// Leader asks who leads. The error is ErrNoLeader when the agent knows nobody.
func (c *Client) Leader(ctx context.Context) (Leader, error) {
	return ask[Leader](ctx, c, "/v1/leader")
}

// Members lists the members that the agent knows.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	return ask[[]Member](ctx, c, "/v1/members")
}

// History lists past leaderships and the present one, oldest first.
func (c *Client) History(ctx context.Context) ([]Leadership, error) {
	return ask[[]Leadership](ctx, c, "/v1/history")
}

// Events calls fn with each event whose Seq is above since, in order. Without
// follow it returns after the newest. With follow it goes on until ctx ends,
// the agent stops (nil), the connection breaks (ErrUnreachable), or fn returns
// an error, which it returns.
func (c *Client) Events(ctx context.Context, since uint64, follow bool, fn func(Event) error) error {
	query := url.Values{"since": {strconv.FormatUint(since, 10)}, "follow": {strconv.FormatBool(follow)}}
	return read(ctx, c, "/v1/events?"+query.Encode(), fn)
}

// Lease asks for the right to act as the leader.
func (c *Client) Lease(ctx context.Context) (Lease, error) {
	return ask[Lease](ctx, c, "/v1/lease")
}

// Reload makes the agent read its configuration again. On an error nothing has
// changed, unless it is ErrUnreachable or the context's. Unless drops, a host list that would leave out a member that is here is
// refused.
func (c *Client) Reload(ctx context.Context, drops bool) error {
	var args map[string]string
	if drops {
		args = map[string]string{"drop": "true"}
	}
	return c.Command(ctx, "reload", args)
}

// StepDown has the agent, which must lead, hand over to the best other, and not
// stand again for the span hold; zero is the agent's lease.
func (c *Client) StepDown(ctx context.Context, hold time.Duration) error {
	var args map[string]string
	if hold > 0 {
		args = map[string]string{"for": hold.String()}
	}
	return c.Command(ctx, "step-down", args)
}

// Stand ends the time for which the agent does not stand after a StepDown.
func (c *Client) Stand(ctx context.Context) error { return c.Command(ctx, "stand", nil) }

// HandOver has the agent, which must lead, hand over to the member with this
// name or id.
func (c *Client) HandOver(ctx context.Context, to string) error {
	return c.Command(ctx, "handover", map[string]string{"to": to})
}

// Forget has the agent, which must lead, take the voter with this name or id out
// of the roster; with force also one that is alive.
func (c *Client) Forget(ctx context.Context, member string, force bool) error {
	args := map[string]string{"member": member}
	if force {
		args["force"] = "true"
	}
	return c.Command(ctx, "forget", args)
}

// Maintain begins the maintenance of the agent's host, or changes its reason and end: for
// the span length, or zero until EndMaintenance. A leader hands over first; with force it
// stops leading though nobody else can.
func (c *Client) Maintain(ctx context.Context, reason string, length time.Duration, force bool) error {
	args := map[string]string{"state": "on"}
	if reason != "" {
		args["reason"] = reason
	}
	if length > 0 {
		args["for"] = length.String()
	}
	if force {
		args["force"] = "true"
	}
	return c.Command(ctx, "maintenance", args)
}

// EndMaintenance ends it: the host may lead again.
func (c *Client) EndMaintenance(ctx context.Context) error {
	return c.Command(ctx, "maintenance", map[string]string{"state": "off"})
}

// OKToStop asks what would be left if the agent's host were stopped now.
func (c *Client) OKToStop(ctx context.Context) (OKToStop, error) {
	return ask[OKToStop](ctx, c, "/v1/ok-to-stop")
}

// Command gives the command called name and waits for its end, which may take
// as long as ctx lets it. The error is ErrUnsupported when the agent does not
// have the command, which an older agent may not.
func (c *Client) Command(ctx context.Context, name string, args map[string]string) error {
	var body []byte
	if len(args) > 0 {
		body, _ = json.Marshal(args) // strings always have a JSON form
	}
	resp, err := c.call(ctx, http.MethodPost, "/v1/"+url.PathEscape(name), body)
	if err != nil {
		return c.explain(ctx, err)
	}
	return resp.Body.Close()
}

// ask gets and decodes the answer to one question.
func ask[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	call, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	resp, err := c.call(call, http.MethodGet, path, nil)
	if err != nil {
		return answer, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, c.explain(ctx, fmt.Errorf("decode answer to %s: %w", path, err))
	}
	return answer, nil
}

// read calls fn with each line of an answer that may go on for ever.
func read[T any](ctx context.Context, c *Client, path string, fn func(T) error) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	hurry := time.AfterFunc(c.patience, cancel)
	resp, err := c.call(call, http.MethodGet, path, nil)
	hurry.Stop()
	if err != nil {
		return c.explain(ctx, err)
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var line T
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return c.explain(ctx, fmt.Errorf("the answer broke off: %w", err))
		}
		if err := fn(line); err != nil {
			return err
		}
	}
}

// call sends one request. The caller closes the answer's body; a refusal comes
// back as *APIError.
func (c *Client) call(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	// The host part is never resolved; the socket is the address.
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readRefusal(resp)
}

// readRefusal takes what the agent says, or the bare status where net/http
// itself refused in plain text.
func readRefusal(resp *http.Response) error {
	refusal := APIError{Status: resp.StatusCode}
	if json.NewDecoder(resp.Body).Decode(&refusal) != nil || refusal.Message == "" {
		refusal = APIError{Status: resp.StatusCode, Message: "agent answered " + resp.Status}
	}
	return &refusal
}

// explain tells apart, for the caller of a failed call with ctx: a refusal, its
// own context's end, and an agent that cannot be reached.
func (c *Client) explain(ctx context.Context, err error) error {
	if refusal := (*APIError)(nil); errors.As(err, &refusal) {
		return refusal
	}
	if ctx.Err() != nil {
		return fmt.Errorf("ask agent at %s: %w", c.path, ctx.Err())
	}
	if c.path == "" {
		return fmt.Errorf("%w: there is no home directory to look for its socket in: name it with --socket", ErrUnreachable)
	}
	cause, hint := err, "is the agent running? --socket names another socket"
	if wrapper := (*url.Error)(nil); errors.As(err, &wrapper) {
		cause = wrapper.Err // without "Get http://agent/…", which says nothing
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		cause = errno
	}
	switch {
	case errors.Is(err, errForeign):
		hint = "is that the right socket? --socket names another"
	case errors.Is(err, fs.ErrPermission):
		hint = "run it as root or as the agent's user"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		cause, hint = fmt.Errorf("no answer within %v", c.patience), "is the agent stopped or overloaded, or does it run the lose hook that its last run left?"
	}
	return fmt.Errorf("%w at %s: %w: %s", ErrUnreachable, c.path, cause, hint)
}
