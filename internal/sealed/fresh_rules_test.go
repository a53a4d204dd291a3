package sealed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
)

// A write that takes several records says how much it wrote in all.
func TestALongWriteIsCounted(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	aead, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	const long = 3*session.MaxRecord + 1
	if n, err := newStream(ours, session.Pair{Send: aead, Recv: aead}).Write(make([]byte, long)); n != long || err != nil {
		t.Errorf("wrote %d of %d bytes: %v", n, long, err)
	}
}

// Who has not said which keys it has is called with each of the ring in turn, also on streams: they are all that a host
// that joins begins with.
func TestS12_StreamsTryKeysInTurn(t *testing.T) {
	called := wrap(t, lantest.New(1).Host("n1", at(1)), 1, testKey(3))
	defer func() { _ = called.Shutdown() }()
	calls := wrap(t, lantest.New(2).Host("n2", at(2)), 2, testKey(1), testKey(2), testKey(3))
	defer func() { _ = calls.Shutdown() }()
	for i, want := range []error{errNotOurs, errNotOurs, nil} {
		near, far := net.Pipe()
		accepted := make(chan error, 1)
		go func() {
			_, _, err := called.Accept(at9{far})
			if err != nil {
				_ = far.Close()
			}
			accepted <- err
		}()
		_, err := calls.call(at9{near}, session.KindStream, session.Meant{})
		if !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i+1, err, want)
		}
		if err := <-accepted; (err == nil) != (want == nil) {
			t.Errorf("call %d is taken: %v", i+1, err)
		}
		_, _ = near.Close(), far.Close()
		calls.locked(func(t *session.Table, now time.Time) { t.Tick(now) }) // which forgets what is of no more use
	}
}

// An agent of an earlier version is named where it sends to, and where it is called: once a minute, with what mends it.
func TestAnEarlierVersionIsNamed(t *testing.T) {
	plain := frameOf(2)
	plain[2] = 2<<4 | plain[2]&0x0F // of wire version 2, which was not sealed
	init, _, _ := newTestTable(9).CallStream(at(1), session.KindStream, session.Meant{})
	init[2] = 1<<4 | init[2]&0x0F // of seal version 1
	for _, c := range []struct {
		name, says string
		earlier    []byte
		isStream   bool
	}{
		{"a frame in clear", "an agent of an earlier version, which is to be upgraded", plain, false},
		{"gossip in clear", "an agent of an earlier version, which is to be upgraded", []byte("\xf4\x04home\x07 gossip"), false},
		{"a stream in clear", "an agent of an earlier version, which is to be upgraded", []byte("\xf4\x04home\x06 push/pull"), true},
		{"a tether in clear", "an agent of an earlier version, which is to be upgraded", []byte("\xb7T\x01\x00home"), true},
		{"a datagram of seal version 1", "upgrade the older of the two: cause=version addr=10.0.0.9:7950 ours=2 theirs=1", init, false},
		{"a stream of seal version 1", "upgrade the older of the two: cause=version addr=10.0.0.9:7950 ours=2 theirs=1", init, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(t *testing.T, lab *lab) {
				a, said := lab.add(1, testKey(1)), new(bytes.Buffer)
				var writes sync.Mutex
				a.cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: said, Mutex: &writes})
				earlier := lab.lan.Host("earlier", at(9))
				defer func() { _ = earlier.Shutdown() }()
				expect := func(side string, lines int) {
					t.Helper()
					writes.Lock()
					text := said.String()
					writes.Unlock()
					if n := strings.Count(text, c.says); n != lines || strings.Count(text, "\n") != lines {
						t.Errorf("%s: it said %q, want %d lines", side, text, lines)
					}
				}
				send := func() {
					if !c.isStream {
						_ = earlier.Send(at(1), c.earlier)
						return
					}
					conn, err := earlier.Dial(at(1), time.Second)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = conn.Write(c.earlier)
				}
				for minute := 1; minute <= 2; minute++ {
					send()
					send()
					time.Sleep(10 * time.Second)
					expect("where it sends to", minute)
					time.Sleep(time.Minute)
				}
				if !c.isStream {
					return
				}
				earlier.Serve(func(conn net.Conn) (net.Conn, transport.Kind, error) { // which answers as it does
					_, _ = io.ReadFull(conn, make([]byte, session.HandshakeSize))
					_, _ = conn.Write(c.earlier)
					return nil, 0, io.EOF
				})
				for minute := 3; minute <= 4; minute++ {
					for range 2 {
						if _, err := a.DialTimeout(at(9).String(), time.Second); err == nil {
							t.Fatal("it was proven")
						}
					}
					time.Sleep(time.Second)
					expect("where it is called", minute)
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// What others do again and again is one line a minute.
func TestPeopleAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		l, err := Wrap(lantest.New(1).Host("n1", at(1)), Config{Cluster: "home", Key: testHost(1), Life: [8]byte{1}, Keys: key.Ring{testKey(1)},
			Logger: hclog.New(&hclog.LoggerOptions{Output: &said})})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Shutdown() }()
		for minute := 1; minute <= 2; minute++ {
			for range 100 {
				l.locked(func(_ *session.Table, _ time.Time) { l.note(session.Trouble{Cause: session.CauseKey, From: at(9)}) })
			}
			if n := strings.Count(said.String(), "not taken"); n != minute {
				t.Errorf("%d lines in %d minutes", n, minute)
			}
			time.Sleep(time.Minute)
		}
	})
}
