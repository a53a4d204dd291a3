package sealed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
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
			_, err := called.Accept(at9{far})
			if err != nil {
				_ = far.Close()
			}
			accepted <- err
		}()
		_, err := calls.call(at9{near}, session.KindStream, netip.AddrPort{})
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
