package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// listenTethers opens a transport that accepts.
func listenTethers(t *testing.T) *Transport {
	t.Helper()
	tr := listen(t, loopback4)
	tr.Serve(hear)
	return tr
}

// tied is a tether in a goroutine of its own, which ends with the test.
type tied struct {
	to    netip.AddrPort
	found chan string
	end   context.CancelFunc
	over  chan struct{}
}

func tie(t *testing.T, from *Transport, to netip.AddrPort) *tied {
	ctx, cancel := context.WithCancel(t.Context())
	w := &tied{to: to, found: make(chan string, 64), end: cancel, over: make(chan struct{})}
	go func() {
		defer close(w.over)
		from.Tether(ctx, to, say(Tether), func() { w.found <- "lost" }, func() { w.found <- "refused" })
	}()
	t.Cleanup(func() {
		cancel()
		<-w.over
	})
	return w
}

// holds waits until tr holds n tethers.
func holds(t *testing.T, tr *Transport, n uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d tethers are held", n), func() bool { return tr.Stats().TethersHeld == n })
}

func TestTetherTellsOfAnEndedPort(t *testing.T) {
	leader, follower := listenTethers(t), listenTethers(t)
	w := tie(t, follower, leader.Addr())
	holds(t, leader, 1)
	if open(leader) != 0 {
		t.Error("the tether takes a place of memberlist's")
	}
	_ = leader.Shutdown()
	for _, want := range []string{"lost", "refused"} {
		if got := next(t, want, w.found); got != want {
			t.Fatalf("found %q, want %q", got, want)
		}
	}
	if s := follower.Stats(); s.TethersLost != 1 || s.DatagramsRefused != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestTetherOverIPv6(t *testing.T) {
	needsIPv6(t)
	leader, follower := listen(t, netip.MustParseAddrPort("[::1]:0")), listen(t, netip.MustParseAddrPort("[::]:0"))
	leader.Serve(hear)
	w := tie(t, follower, leader.Addr())
	holds(t, leader, 1)
	_ = leader.Shutdown()
	for _, want := range []string{"lost", "refused"} {
		if got := next(t, want, w.found); got != want {
			t.Fatalf("found %q, want %q", got, want)
		}
	}
}

func TestTetherEndsWithItsContextAndItsTransport(t *testing.T) {
	leader, follower := listenTethers(t), listenTethers(t)
	w := tie(t, follower, leader.Addr())
	holds(t, leader, 1)
	w.end()
	<-w.over
	holds(t, leader, 0)

	w = tie(t, follower, leader.Addr())
	holds(t, leader, 1)
	_ = follower.Shutdown()
	<-w.over
	holds(t, leader, 0)
	_ = leader.Shutdown()
	if len(w.found) > 0 {
		t.Errorf("found %q after its end", <-w.found)
	}
}

// TestProbeDoesNotDisturbALivingAgent: the datagram of E7 is not read, and is no error.
func TestProbeDoesNotDisturbALivingAgent(t *testing.T) {
	leader, follower := listenTethers(t), listenTethers(t)
	datagrams := drive(leader)
	if follower.device.refusesDatagrams(follower.source(), leader.Addr()) {
		t.Error("a living agent seems to refuse datagrams")
	}
	send(t, follower, leader.Addr(), "after it")
	if got := next(t, "a datagram", datagrams); got.data != "after it" {
		t.Errorf("received %q", got.data)
	}
	if s := leader.Stats(); s.DatagramsIn != 1 {
		t.Errorf("counted %+v, want one datagram alone", s)
	}
	_ = leader.Shutdown()
	if !follower.device.refusesDatagrams(follower.source(), leader.Addr()) {
		t.Error("a closed port seems to take datagrams")
	}
}

// Whoever speaks on a tether is not an agent.
func TestATetherThatSpeaksIsClosed(t *testing.T) {
	tr := listenTethers(t)
	conn := dial(t, "127.0.0.1", tr)
	begin(t, conn, Tether)
	holds(t, tr, 1)
	write(t, conn, "a word")
	wantClosed(t, conn)
	holds(t, tr, 0)
}

func TestTethersAreBounded(t *testing.T) {
	tr := listen(t, loopback4)
	taken := tr.Serve(hear)
	known := []netip.Addr{netip.MustParseAddr("127.0.2.1")}
	for i := range maxTethers / maxTethersPerSource {
		known = append(known, netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i)}))
	}
	tr.Know(known)
	for i := range maxTethers {
		begin(t, dial(t, fmt.Sprintf("127.0.1.%d", 1+i/maxTethersPerSource), tr), Tether)
		holds(t, tr, uint64(i+1))
		if i+1 == maxTethersPerSource {
			extra := dial(t, "127.0.1.1", tr)
			begin(t, extra, Tether)
			wantClosed(t, extra)
		}
	}
	extra := dial(t, "127.0.2.1", tr)
	begin(t, extra, Tether)
	wantClosed(t, extra)

	gossip := dial(t, "127.0.1.1", tr) // and memberlist has its own places
	begin(t, gossip, Gossip)
	_ = next(t, "a stream of memberlist's", taken).Close()
}

// TestShutdownClosesTheListenerBeforeTheTethers: else the dial that follows the
// end of a tether could find the port open.
func TestShutdownClosesTheListenerBeforeTheTethers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shortListener{conns: make(chan net.Conn, 1)}
		near, far := net.Pipe()
		l.conns <- fromHost{near}
		ctx, cancel := context.WithCancel(t.Context())
		s := newStreams(ctx, l, hclog.NewNullLogger(), new(counters))
		s.start(hear)
		_, _ = say(Tether)(far)
		time.Sleep(time.Hour) // and it is held for as long
		if n := s.tethers.open(); n != 1 {
			t.Fatalf("%d tethers are held", n)
		}
		openAtEnd := make(chan bool)
		go func() {
			_, _ = far.Read(make([]byte, 1))
			select {
			case _, ok := <-l.conns:
				openAtEnd <- ok
			default:
				openAtEnd <- true
			}
		}()
		cancel()
		s.close()
		if <-openAtEnd {
			t.Error("the listener was open when the tether ended")
		}
	})
}

// meet is what a dial meets, which waits so long for an answer.
type meet func(wait time.Duration) (net.Conn, error)

// far is the other end of a tether in fake time: what each dial meets, one
// after the other, and the last one for ever.
type far struct {
	meets []meet
	dials []time.Duration
	found []string
	begun time.Time
}

// keep runs a tether against f for a while.
func (f *far) keep(t *testing.T, d time.Duration) {
	t.Helper()
	f.begun = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	e := tether{count: new(counters), refuses: func() bool { return true },
		lost:    func() { f.found = append(f.found, "lost") },
		refused: func() { f.found = append(f.found, "refused") },
		dial: func(wait time.Duration) (net.Conn, error) {
			i := min(len(f.dials), len(f.meets)-1)
			f.dials = append(f.dials, time.Since(f.begun))
			return f.meets[i](wait)
		}}
	e.keep(ctx)
	if took := time.Since(f.begun); took != d {
		t.Errorf("it ended after %v, want %v", took, d)
	}
}

// lives gives a stream that ends after a while, or never if it is zero.
func lives(d time.Duration) meet {
	return func(time.Duration) (net.Conn, error) {
		near, other := net.Pipe()
		go func() {
			if d > 0 {
				time.Sleep(d)
				_ = other.Close()
			}
		}()
		return near, nil
	}
}

// over gives a dial that is answered after a while, if it waits as long.
func over(trip time.Duration, m meet) meet {
	return func(wait time.Duration) (net.Conn, error) {
		if wait < trip {
			return silence(wait)
		}
		time.Sleep(trip)
		return m(wait - trip)
	}
}

// silence gives a dial that nothing answers.
func silence(wait time.Duration) (net.Conn, error) {
	time.Sleep(wait)
	return fails(os.ErrDeadlineExceeded)(wait)
}

// fails gives a dial that fails at once.
func fails(err error) meet {
	return func(time.Duration) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
}

// brokenConn is a stream that the kernel ends in its own way.
type brokenConn struct {
	net.Conn
	err error
}

func (c brokenConn) Read([]byte) (int, error) {
	time.Sleep(time.Hour)
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: c.err}
}

// breaks gives a stream that breaks after an hour.
func breaks(err error) meet {
	return func(wait time.Duration) (net.Conn, error) {
		near, _ := lives(0)(wait)
		return brokenConn{near, err}, nil
	}
}

// redials is how many dials after an end are given up before it says nothing any more: 5 ms, 10, … 1,280.
const redials = 9

func TestWhatIsEvidence(t *testing.T) {
	refusal := fails(syscall.ECONNREFUSED)
	for _, c := range []struct {
		name  string
		meets []meet
		want  []string
	}{
		{"an end and a refusal", []meet{lives(time.Hour), refusal}, []string{"lost", "refused"}},
		{"a reset and a refusal", []meet{breaks(syscall.ECONNRESET), refusal}, []string{"lost", "refused"}},
		{"a dying process accepts once more", []meet{lives(time.Hour), lives(1), refusal}, []string{"lost", "refused"}},
		{"a dying process resets the next dial", []meet{lives(time.Hour), fails(syscall.ECONNRESET), refusal}, []string{"lost", "refused"}},
		{"a dying process closes the next stream in its proof", []meet{lives(time.Hour), fails(unproven{io.EOF}), refusal}, []string{"lost", "refused"}},
		{"an end and a stranger", []meet{lives(time.Hour), fails(unproven{errNotSilent}), refusal}, nil},
		{"two lives", []meet{lives(time.Hour), refusal, lives(time.Hour), refusal}, []string{"lost", "refused", "lost", "refused"}},
		{"a refusal alone", []meet{refusal}, nil},
		{"an end and a restart", []meet{lives(time.Hour), lives(0)}, nil},
		{"an end, a dial that the dying listener drops, and a refusal", []meet{lives(time.Hour), silence, refusal}, []string{"lost", "refused"}},
		{"an end and a time-out", slices.Concat([]meet{lives(time.Hour)}, slices.Repeat([]meet{silence}, redials), []meet{refusal}), nil},
		{"an end and no way there", []meet{lives(time.Hour), fails(syscall.EHOSTUNREACH), refusal}, nil},
		{"an end and no port left here", []meet{lives(time.Hour), fails(syscall.EADDRNOTAVAIL), refusal}, nil},
		{"a time-out and a refusal", []meet{breaks(syscall.ETIMEDOUT), refusal}, nil},
		{"our network is down", []meet{breaks(syscall.ENETDOWN), refusal}, nil},
		{"the host is unreachable", []meet{breaks(syscall.EHOSTUNREACH), refusal}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := far{meets: c.meets}
				f.keep(t, 24*time.Hour)
				if !slices.Equal(f.found, c.want) {
					t.Errorf("found %q, want %q; dialled at %v", f.found, c.want, f.dials[:min(len(f.dials), 9)])
				}
			})
		})
	}
}

// Where the way is long, the first dial after an end has the time that its refusal takes.
func TestARedialWaitsAsTheStreamDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 60 * time.Millisecond
		far := far{meets: []meet{over(trip, lives(time.Hour)), over(trip, fails(syscall.ECONNREFUSED))}}
		far.keep(t, time.Hour+trip+trip+trip/2)
		if want := []time.Duration{0, time.Hour + trip}; !slices.Equal(far.dials, want) || !slices.Equal(far.found, []string{"lost", "refused"}) {
			t.Errorf("dialled at %v, want %v; found %q", far.dials, want, far.found)
		}
	})
}

// A listener whose queue is full drops a SYN, as one does in the moment of its closing.
func TestADroppedDialIsMadeAgain(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	shut := sync.OnceValue(func() error { return unix.Close(fd) })
	defer func() { _ = shut() }()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(loopback4.Addr(), uint16(name.(*unix.SockaddrInet4).Port))
	first, err := device("").dialTether(t.Context(), netip.Addr{}, at, patience) // fills it
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()

	var dials atomic.Int32
	e := tether{dial: func(wait time.Duration) (net.Conn, error) {
		dials.Add(1)
		return device("").dialTether(t.Context(), netip.Addr{}, at, wait)
	}}
	answer := make(chan error, 1)
	go func() {
		_, err := e.reach(true)
		answer <- err
	}()
	eventually(t, "a second dial", func() bool { return dials.Load() >= 2 })
	if err := shut(); err != nil {
		t.Fatal(err)
	}
	if err := next(t, "an answer", answer); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestDialsAfterAnEndAreAtOnceAndFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := far{meets: []meet{lives(time.Hour), fails(syscall.ECONNREFUSED)}}
		f.keep(t, 2*time.Hour)
		if f.dials[1] != time.Hour {
			t.Errorf("the second dial was at %v, want an hour: at once", f.dials[1])
		}
		if n := len(f.dials); n > 2*3600/5 {
			t.Errorf("%d dials in an hour of refusals", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := far{meets: []meet{lives(1)}} // it takes us and closes, as for want of a place
		f.keep(t, time.Hour)
		if n := len(f.dials); n < 3600/15 || n > 3600/5 {
			t.Errorf("%d dials in an hour, want one about every ten seconds", n)
		}
		if len(f.found) > 0 {
			t.Errorf("found %q", f.found)
		}
	})
}

func TestEndedTetherReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var dials atomic.Int32
		e := tether{count: new(counters), refuses: func() bool { return true },
			lost: func() { t.Error("lost") }, refused: func() { t.Error("refused") },
			dial: func(time.Duration) (net.Conn, error) {
				if dials.Add(1) == 1 {
					return lives(time.Hour)(0)
				}
				cancel() // while it is on its way
				return nil, syscall.ECONNREFUSED
			}}
		e.keep(ctx)
	})
}

// childVariable makes the test binary a process that can be killed.
const childVariable = "TRANSPORT_TEST_CHILD"

// beChild listens, says where, says when it holds a tether, and waits for its
// death.
func beChild() {
	tr, err := Listen(Config{Bind: loopback4})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tr.Serve(hear)
	fmt.Println(tr.Addr())
	for tr.Stats().TethersHeld == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("held")
	_, _, _ = tr.Read(make([]byte, 256))
	os.Exit(1)
}

// child starts such a process and makes a tether to it.
func child(t *testing.T, from *Transport) (*os.Process, *tied) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the child says nothing: %v", lines.Err())
	}
	w := tie(t, from, netip.MustParseAddrPort(lines.Text()))
	if !lines.Scan() {
		t.Fatalf("the child holds no tether: %v", lines.Err())
	}
	return cmd.Process, w
}

// TestKilledProcess measures what all this is for: how soon after kill -9 others
// know.
func TestKilledProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short was given")
	}
	const runs = 10
	follower := listenTethers(t)
	var lost, refused []time.Duration
	for range runs {
		process, w := child(t, follower)
		killed := time.Now()
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		if got := next(t, "the loss", w.found); got != "lost" {
			t.Fatalf("found %q first", got)
		}
		lost = append(lost, time.Since(killed))
		if got := next(t, "the refusal", w.found); got != "refused" {
			t.Fatalf("found %q next", got)
		}
		refused = append(refused, time.Since(killed))
		w.end()
		<-w.over
	}
	slices.Sort(lost)
	slices.Sort(refused)
	t.Logf("kill -9 to lost: p50 %v, max %v; to refused: p50 %v, max %v; %d runs",
		lost[runs/2], lost[runs-1], refused[runs/2], refused[runs-1], runs)
	if lost[runs/2] > time.Second {
		t.Errorf("the median of %v says that it did not work at once", lost[runs/2])
	}
}

// TestStoppedProcess: a process under SIGSTOP still listens, so it is not gone;
// and when it is killed in that state, that is seen.
func TestStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short was given")
	}
	follower := listenTethers(t)
	process, w := child(t, follower)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	addr := w.to.String()
	conn, err := net.DialTimeout("tcp4", addr, patience) // a stopped process's kernel still answers
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if len(w.found) > 0 {
		t.Errorf("found %q of a stopped process", <-w.found)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, "the loss", w.found); got != "lost" {
		t.Errorf("found %q", got)
	}
}
