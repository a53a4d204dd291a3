package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeSource is the test partner of Source: what it is told to give.
type fakeSource struct {
	hosts    []string
	err      error
	isClosed bool
}

func (f *fakeSource) Find(context.Context) ([]string, error) { return f.hosts, f.err }
func (f *fakeSource) Close()                                 { f.isClosed = true }

// fakes are Sources whose sources are fakes, by entry.
func fakes(t *testing.T) (*Sources, map[string]*fakeSource) {
	t.Helper()
	s, made := New(Config{}), map[string]*fakeSource{}
	s.open = func(entry string) Source {
		if was := made[entry]; was != nil && !was.isClosed {
			t.Errorf("%s is open twice", entry)
		}
		made[entry] = &fakeSource{hosts: []string{entry + "-host"}}
		return made[entry]
	}
	return s, made
}

func found(t *testing.T, s *Sources, entry, want string) {
	t.Helper()
	hosts, err := s.Find(t.Context(), entry)
	if got := said(hosts, err); got != want {
		t.Errorf("%s gives %q, want %q", entry, got, want)
	}
}

// said is hosts and error in one line.
func said(hosts []string, err error) string {
	text := strings.Join(hosts, " ")
	if err != nil {
		text += "; " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return strings.TrimPrefix(text, "; ")
}

// A host stands for itself, a source for what it says, and one that was taken out of join for
// nothing: it is closed, and does not come back to life by an attempt that was under way.
func TestEntries(t *testing.T) {
	s, made := fakes(t)
	s.Set([]string{"alpha.lan:7950", "mdns", "srv:_a._udp.lan"})
	found(t, s, "alpha.lan:7950", "alpha.lan:7950")
	found(t, s, "mdns", "mdns-host")
	kept := made["srv:_a._udp.lan"]
	s.Set([]string{"srv:_a._udp.lan", "exec:/b"})
	if !made["mdns"].isClosed || kept.isClosed || made["srv:_a._udp.lan"] != kept {
		t.Error("what went is open, or what stayed was made anew")
	}
	found(t, s, "mdns", "it is not in join any more")
	found(t, s, "exec:/b", "exec:/b-host")
	s.Close()
	found(t, s, "exec:/b", "it is not in join any more")
	for entry, f := range made {
		if !f.isClosed {
			t.Errorf("%s is open after Close", entry)
		}
	}
}

// What one source can have a host try is bounded, and what it says beside is kept.
func TestASourceIsBounded(t *testing.T) {
	s, made := fakes(t)
	s.Set([]string{"mdns"})
	made["mdns"].hosts, made["mdns"].err = slices.Repeat([]string{"h"}, MaxHosts+1), errors.New("one answer was odd")
	hosts, err := s.Find(t.Context(), "mdns")
	if len(hosts) != MaxHosts || err == nil || err.Error() != "one answer was odd\n257 hosts: 256 of them are tried, others each time" {
		t.Errorf("%d hosts, %v", len(hosts), err)
	}
}

// False hosts before a true one, more than are tried, do not keep it out for good.
func TestFalseHostsFirst(t *testing.T) {
	s, made := fakes(t)
	s.Set([]string{"mdns"})
	made["mdns"].hosts = append(slices.Repeat([]string{"false"}, MaxHosts), "true")
	for range 100 { // by chance it is cut in one of 257
		if hosts, _ := s.Find(t.Context(), "mdns"); slices.Contains(hosts, "true") {
			return
		}
	}
	t.Error("the true one was never given")
}

func TestPrograms(t *testing.T) {
	got := Programs([]string{"exec:/a", "alpha", "srv:_x._udp.lan", "exec:/b", "mdns", "exec:/a"})
	if !slices.Equal(got, []string{"/a", "/b"}) {
		t.Errorf("programs are %q", got)
	}
}

// checkLetters is a Check that takes letters, dots and a port.
func checkLetters(host string) error {
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz.:0123456789") != "" {
		return fmt.Errorf("%q is not a host name", host)
	}
	return nil
}

func TestSRV(t *testing.T) {
	records := func(all ...*net.SRV) []*net.SRV { return all }
	for _, c := range []struct {
		name    string
		records []*net.SRV
		err     error
		want    string
	}{
		{"two, each with its port", records(&net.SRV{Target: "alpha.lan.", Port: 7950}, &net.SRV{Target: "beta.lan.", Port: 8000}), nil,
			"alpha.lan.:7950 beta.lan.:8000"},
		{"none", nil, nil, "_b._udp.lan has no SRV records"},
		{"no such name", nil, &net.DNSError{Err: "no such host", IsNotFound: true}, "_b._udp.lan has no SRV records"},
		{"no answer", nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}, "look up SRV records: lookup: i/o timeout"},
		{"decidedly nobody", records(&net.SRV{Target: ".", Port: 0}), nil, "a record says that there is no host"},
		{"without a port", records(&net.SRV{Target: "alpha.lan."}, &net.SRV{Target: "beta.lan.", Port: 8000}), nil,
			"beta.lan.:8000; the record of alpha.lan. has no port"},
		{"some are no names", records(&net.SRV{Target: "alpha.lan.", Port: 1}), errors.New("DNS response contained records which contain invalid names"),
			"alpha.lan.:1; look up SRV records: DNS response contained records which contain invalid names"},
		{"no host name", records(&net.SRV{Target: "a$b.", Port: 1}), nil, `"a$b.:1" is not a host name`},
	} {
		cfg := Config{Check: checkLetters, Resolve: func(context.Context, string) ([]*net.SRV, error) { return c.records, c.err }}
		got := said(newRecords("_b._udp.lan", cfg).Find(t.Context()))
		if want := strings.Replace(c.want, "lookup: ", "lookup : ", 1); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

// A resolver that does not answer is left after Timeout.
func TestSRVIsBounded(t *testing.T) {
	cfg := Config{Resolve: func(ctx context.Context, _ string) ([]*net.SRV, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > Timeout {
			t.Errorf("the resolver may take until %v", end)
		}
		return nil, nil
	}}
	newRecords("x", cfg).Find(t.Context())
}

// What a program prints: hosts by line, comments, and nonsense, which is named by line.
func TestLinesOfAProgram(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"hosts", "alpha\nbeta.lan:8000\n10.0.0.7\n", "alpha beta.lan:8000 10.0.0.7"},
		{"no end of line", "alpha\nbeta", "alpha beta"},
		{"comments and blanks", "# all of them\n\n \t\n  alpha\t# the old one\r\n#beta\n", "alpha"},
		{"nothing", "", "it printed no host"},
		{"comments alone", "# nobody\n", "it printed no host"},
		{"nonsense", "alpha\nERROR: no route\nbeta\n<html>\n", `alpha beta; line 2: "ERROR: no route" is not a host name; line 4: "<html>" is not a host name`},
		{"two in a line", "alpha beta\n", `line 1: "alpha beta" is not a host name`},
		{"control characters", "al\x1b[31mpha\n", `line 1: "al\x1b[31mpha" is not a host name`},
		{"too many lines", strings.Repeat("#\n", maxLines) + "alpha\n", "it printed more than 1024 lines: the others are not read"},
		{"as many hosts as may be, with a comment", "# all\n" + strings.Repeat("h\n", MaxHosts), strings.TrimSpace(strings.Repeat("h ", MaxHosts))},
		{"as many as may be", strings.Repeat("#\n", maxLines-1) + "alpha\n", "alpha"},
		{"too much", "alpha\n" + strings.Repeat("b", MaxText), "alpha; it printed more than 64 KiB: the lines after that are not read"},
		{"too much in one line", strings.Repeat("b", MaxText+1), "it printed more than 64 KiB: the lines after that are not read"},
	} {
		if got := said(hostsIn([]byte(c.text), checkLetters)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A program is run once a second at most, and its last answer given until then, a failure as
// well; of a failed one nothing is used.
func TestAProgramIsNotRunTooOften(t *testing.T) {
	runs, now := 0, time.Now()
	answer, failure := "alpha\n", error(nil)
	p := newProgram("/p", Config{Check: checkLetters, Run: func(_ context.Context, path string) ([]byte, error) {
		runs++
		return []byte(answer), failure
	}})
	p.now = func() time.Time { return now }
	ask := func(wantRuns int, want string) {
		t.Helper()
		if got := said(p.Find(t.Context())); got != want || runs != wantRuns {
			t.Errorf("%q after %d runs, want %q after %d", got, runs, want, wantRuns)
		}
	}
	ask(1, "alpha")
	answer = "beta\n"
	ask(1, "alpha")
	now = now.Add(fresh)
	ask(2, "beta")
	answer, failure = "gamma\n", errors.New("exit status 3")
	now = now.Add(fresh)
	ask(3, "exit status 3")
	ask(3, "exit status 3")
	failure = nil
	now = now.Add(fresh)
	ask(4, "gamma")
}

// An attempt that was given up says nothing of the program.
func TestAnAttemptThatIsGivenUp(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	p := newProgram("/p", Config{Check: checkLetters, Run: func(context.Context, string) ([]byte, error) { end(); return nil, context.Canceled }})
	if _, err := p.Find(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if !p.at.IsZero() {
		t.Error("it counts as an answer")
	}
}
