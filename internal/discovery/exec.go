package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Run runs a program that is named by its absolute path, without arguments, and gives what it
// wrote to its standard output, at most MaxText and some more if it wrote more. It ends what
// takes longer than Timeout, with all that it has started. Of a program that failed there is
// no text.
type Run func(ctx context.Context, program string) (text []byte, err error)

const (
	// MaxText and maxLines bound what is read of a program. Arbitrary: MaxHosts with room
	// for comments are far below.
	MaxText  = 64 << 10
	maxLines = 1024

	// fresh is how long an answer is given again instead of running the program anew: a
	// young agent looks for others several times a second, which is much for a program.
	fresh = time.Second
)

// program is what prints hosts.
type program struct {
	path  string
	run   Run
	check func(string) error
	now   func() time.Time

	mu    sync.Mutex
	at    time.Time // when the last answer came; zero: none has
	hosts []string
	err   error
}

func newProgram(path string, cfg Config) *program {
	return &program{path: path, run: cfg.Run, check: cfg.Check, now: time.Now}
}

// Find implements Source.
func (p *program) Find(ctx context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && p.now().Sub(p.at) < fresh {
		return slices.Clone(p.hosts), p.err
	}
	text, err := p.run(ctx, p.path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.hosts, p.err = nil, err
	if err == nil {
		p.hosts, p.err = hostsIn(text, p.check)
	}
	p.at = p.now()
	return slices.Clone(p.hosts), p.err
}

// Close implements Source.
func (p *program) Close() {}

// hostsIn reads one host or host:port of each line; what follows a # is a comment. Lines that
// are neither are named, and the others count.
func hostsIn(text []byte, check func(string) error) (hosts []string, err error) {
	var bad []error
	if len(text) > MaxText {
		text = text[:bytes.LastIndexByte(text[:MaxText], '\n')+1]
		bad = append(bad, fmt.Errorf("it printed more than %d KiB: the lines after that are not read", MaxText>>10))
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; n > maxLines {
			bad = append(bad, fmt.Errorf("it printed more than %d lines: the others are not read", maxLines))
			break
		}
		host, _, _ := strings.Cut(line, "#")
		if host = strings.TrimSpace(host); host == "" {
			continue
		}
		if wrong := check(host); wrong != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", n, wrong))
			continue
		}
		hosts = append(hosts, host)
	}
	if len(hosts) == 0 && len(bad) == 0 {
		bad = append(bad, errors.New("it printed no host"))
	}
	return hosts, errors.Join(bad...)
}
