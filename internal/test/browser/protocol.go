package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A client speaks the DevTools protocol with one browser, over two pipes: messages in JSON, each ended by a zero byte. A library for
// it has a type for each of some thousand messages; the tests need a dozen of them.
type client struct {
	cmd  *exec.Cmd
	dir  string       // what it keeps
	said bytes.Buffer // on stderr, complete once gone is closed
	gone chan struct{}

	sharers int // guarded by sharing

	writing sync.Mutex // of to; reading goes on meanwhile, or two full pipes would wait for each other
	to      *os.File

	mu     sync.Mutex
	last   int
	waits  map[int]chan<- message
	events map[string]func(method string, params json.RawMessage) // by session
}

// message is a command, its result or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// params are a command's, by name.
type params map[string]any

// start starts the browser at path.
func start(path string) (*client, error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(switches), "--user-data-dir="+dir)
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses root with one
	}
	c := &client{cmd: exec.Command(path, args...), dir: dir, gone: make(chan struct{}),
		waits: map[int]chan<- message{}, events: map[string]func(string, json.RawMessage){}}
	c.cmd.Stderr = &c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

// connect starts the browser with its ends of the pipes.
func (c *client) connect() error {
	theirIn, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	from, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	defer theirOut.Close()
	c.to, c.cmd.ExtraFiles = to, []*os.File{theirIn, theirOut} // 3 and 4, where --remote-debugging-pipe has them
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, to.Close(), from.Close())
	}
	go c.read(from)
	return nil
}

// read hands on what the browser says, until it is gone.
func (c *client) read(from *os.File) {
	defer from.Close()
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line[:len(line)-1], &m) == nil {
			c.take(m)
		}
	}
	_ = c.cmd.Wait() // its processes all have its stderr, so none of them is left; how it ended is in what it said
	close(c.gone)
}

// take gives a result to whoever waits for it, and an event to whoever listens.
func (c *client) take(m message) {
	c.mu.Lock()
	wait, event := c.waits[m.ID], c.events[m.Session]
	delete(c.waits, m.ID)
	c.mu.Unlock()
	switch {
	case wait != nil:
		wait <- m
	case event != nil && m.Method != "":
		event(m.Method, m.Params)
	}
}

// listen has the session's events told to f, one at a time.
func (c *client) listen(session string, f func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[session] = f
}

// forget ends what listen began.
func (c *client) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.events, session)
}

// isGone reports whether the browser has ended.
func (c *client) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// A refusal is the browser's answer to a command that it does not carry out.
type refusal string

func (r refusal) Error() string { return "the browser refused: " + string(r) }

// call sends a command, to the browser itself without a session, and waits for its result.
func (c *client) call(session, method string, p params, result any) error {
	if err := c.exchange(session, method, p, result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// exchange sends a command and reads its result.
func (c *client) exchange(session, method string, p params, result any) error {
	answered, err := c.send(session, method, p)
	if err != nil {
		return err
	}
	select {
	case m := <-answered:
		if m.Error != nil {
			return refusal(m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-c.gone:
		return fmt.Errorf("the browser is gone: %s", c.said.String())
	case <-time.After(Bound):
		return fmt.Errorf("no answer for %v", Bound)
	}
}

// send sends a command; its result comes on the channel.
func (c *client) send(session, method string, p params) (<-chan message, error) {
	if p == nil {
		p = params{}
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	id, answered := c.await()
	line, err := json.Marshal(message{ID: id, Session: session, Method: method, Params: encoded})
	if err != nil {
		return nil, err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.to.SetWriteDeadline(time.Now().Add(Bound)); err != nil {
		return nil, err
	}
	_, err = c.to.Write(append(line, 0))
	return answered, err
}

// await numbers a command, and has its result given to the channel.
func (c *client) await() (id int, answered <-chan message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	to := make(chan message, 1)
	c.waits[c.last] = to
	return c.last, to
}

// end ends the browser, and returns once none of its processes is left.
func (c *client) end() {
	_, _ = c.send("", "Browser.close", nil) // one that is gone already cannot be told
	select {
	case <-c.gone:
	case <-time.After(Bound):
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.gone
	}
	c.to.Close()
	_ = os.RemoveAll(c.dir) // of nobody any more
}
