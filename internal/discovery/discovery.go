// Package discovery turns an entry of join into hosts to try: a name or an address stands for
// itself, and a source is asked.
//
//	"alpha.lan", "10.0.0.7:7950"     itself
//	"srv:_bully-agent._udp.lan"      the SRV records of that name, each with its port
//	"exec:/usr/local/bin/peers"      the lines that a program prints, which the keeper runs
//	"mdns"                           who answers on this host's link; it is told of this host, too
//
// What a source says is a hint and no more: whoever is at such an address is admitted, or not,
// as if a person had written it into join. Sources keep nothing, and are asked again at each
// attempt (protocol 6.2).
package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// How an entry begins, or what it is, that names a source.
const (
	SRV  = "srv:"
	Exec = "exec:"
	MDNS = "mdns"
)

const (
	// Timeout is how long a source may take to answer. Arbitrary: a resolver tries two
	// servers in that.
	Timeout = 5 * time.Second

	// MaxHosts bounds what one source can have this host try. Arbitrary: above the hosts
	// of any cluster, and what is tried costs a connection each.
	MaxHosts = 256

	// MaxSources bounds how many there are. Arbitrary.
	MaxSources = 16
)

// Source is where hosts can be learnt of.
type Source interface {
	// Find asks once, and ends within its own bound, sooner with ctx. It may give both
	// hosts and an error, which then says what else there would have been, in a line for
	// each thing.
	Find(ctx context.Context) (hosts []string, err error)
	// Close gives back what the source holds. It is called once, possibly while Find runs.
	Close()
}

// Config is what sources need.
type Config struct {
	// Resolve asks for SRV records; nil: the system's resolver.
	Resolve Resolve
	// Run runs the program of an exec source.
	Run Run
	// Check says why a text is no host[:port]; nil: all are.
	Check func(host string) error
	// Cluster is the cluster's name, of which mDNS tells a hash.
	Cluster string
	// Self is where others reach this host.
	Self netip.AddrPort
}

// IsSource reports whether an entry of join names a source.
func IsSource(entry string) bool {
	return entry == MDNS || strings.HasPrefix(entry, SRV) || strings.HasPrefix(entry, Exec)
}

// Programs are those that the exec sources among these entries run, each once.
func Programs(entries []string) (programs []string) {
	for _, entry := range entries {
		if program, ok := strings.CutPrefix(entry, Exec); ok && !slices.Contains(programs, program) {
			programs = append(programs, program)
		}
	}
	return programs
}

// Sources are those that join names now. Safe for concurrent use.
type Sources struct {
	open func(entry string) Source

	mu  sync.Mutex
	all map[string]Source // by entry
}

// New makes Sources, none at first. Close is due.
func New(cfg Config) *Sources {
	if cfg.Check == nil {
		cfg.Check = func(string) error { return nil }
	}
	return &Sources{open: cfg.source, all: map[string]Source{}}
}

func (cfg Config) source(entry string) Source {
	switch {
	case entry == MDNS:
		return newMulticast(cfg)
	case strings.HasPrefix(entry, SRV):
		return newRecords(strings.TrimPrefix(entry, SRV), cfg)
	}
	return newProgram(strings.TrimPrefix(entry, Exec), cfg)
}

// Set has these entries be those of join from now on. What asks for others' hosts meanwhile
// gets none.
func (s *Sources) Set(entries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.all
	s.all = map[string]Source{}
	for _, entry := range entries {
		switch was := before[entry]; {
		case was != nil:
			s.all[entry] = was
			delete(before, entry)
		case IsSource(entry) && s.all[entry] == nil:
			s.all[entry] = s.open(entry)
		}
	}
	for _, gone := range before {
		gone.Close()
	}
}

// Close closes all.
func (s *Sources) Close() { s.Set(nil) }

// errDropped is the answer of a source that join does not name any more.
var errDropped = errors.New("it is not in join any more")

// Find gives the hosts that an entry stands for now, each as host or host:port, at most
// MaxHosts. There may be hosts and an error, which has a line for each thing.
func (s *Sources) Find(ctx context.Context, entry string) ([]string, error) {
	if !IsSource(entry) {
		return []string{entry}, nil
	}
	s.mu.Lock()
	source := s.all[entry]
	s.mu.Unlock()
	if source == nil {
		return nil, errDropped
	}
	hosts, err := source.Find(ctx)
	if len(hosts) > MaxHosts { // any of them: what is false may always come first
		err = errors.Join(err, fmt.Errorf("%d hosts: %d of them are tried, others each time", len(hosts), MaxHosts))
		hosts = slices.Clone(hosts)
		rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		hosts = hosts[:MaxHosts]
	}
	return hosts, err
}
