package membership

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A ledger comes to everybody with the push/pull that is there anyway, a newer
// one too, and our own is no news.
func TestLedgersSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		alpha, beta := s.start("alpha"), s.start("beta", "alpha")
		s.allSee(10*time.Second, alpha, beta)
		told := func(a *agent) (last []byte) {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, ev := range a.told {
				if ev.Kind == LedgerReceived {
					last = ev.Ledger
				}
			}
			a.told = nil
			return last
		}
		for _, ledger := range []string{"what alpha knows", "and later"} {
			alpha.SetLedger([]byte(ledger))
			time.Sleep(2 * time.Minute) // two intervals of push/pull
			if got := told(beta); string(got) != ledger {
				t.Errorf("beta was told %q, want %q", got, ledger)
			}
			beta.SetLedger([]byte(ledger))
			told(alpha) // beta's older one
			time.Sleep(2 * time.Minute)
			if got := told(alpha); got != nil {
				t.Errorf("alpha was told what it knows: %q", got)
			}
		}
	})
}

func TestLedgersAreBounded(t *testing.T) {
	m := &Membership{wake: make(chan struct{}, 1), refused: map[string]uint64{}, lives: newLives(Member{}, time.Second, isNew)}
	m.hearState(append([]byte{stateVersion, 0}, make([]byte, MaxLedger+1)...))
	if got := m.Events(); len(got) != 0 || m.refused["push-pull-state"] != 1 {
		t.Errorf("a ledger of too many bytes gives %v, refused %v", got, m.refused)
	}
	for i := range 2 * maxLedgers {
		m.hearState([]byte{stateVersion, 0, byte(i)})
		m.hearState([]byte{stateVersion, 0, byte(i)})
	}
	got := m.Events()
	if len(got) != maxLedgers || got[1].String() != "ledger-received bytes=1" {
		t.Errorf("%d ledgers wait, want %d: %v", len(got), maxLedgers, got)
	}
	for i, ev := range got { // each once
		if ev.Ledger[0] != byte(i) {
			t.Errorf("ledger %d says %d", i, ev.Ledger[0])
		}
	}
	m.SetLedger([]byte("short"))
	m.SetLedger(make([]byte, MaxLedger+1))
	if _, ledger, err := cutState(m.state()); string(ledger) != "short" {
		t.Errorf("told %d bytes, %v; want those that fit", len(ledger), err)
	}
}

func TestState(t *testing.T) {
	e := wire.Epoch{Counter: 42, Owner: idOf("alpha")}
	for _, tt := range []struct {
		leader wire.Epoch
		ledger []byte
	}{{}, {leader: e}, {ledger: []byte{1}}, {e, []byte("ledger")}} {
		m := &Membership{leader: tt.leader}
		m.SetLedger(tt.ledger)
		b := m.state()
		record, ledger, err := cutState(b)
		if err != nil || !bytes.Equal(record, appendRecord(nil, tt.leader)) || !bytes.Equal(ledger, tt.ledger) {
			t.Errorf("%v, %q: cut into %x and %q, %v", tt.leader, tt.ledger, record, ledger, err)
		}
	}
	for _, bad := range [][]byte{{}, {stateVersion}, {1, 0}, {3, 0}, {stateVersion, 1}, {stateVersion, 25, 1}, appendRecord(nil, e)} {
		if _, _, err := cutState(bad); err == nil {
			t.Errorf("%x is accepted", bad)
		}
	}
}

// FuzzState: no bytes panic, and what is heard is bounded.
func FuzzState(f *testing.F) {
	f.Add([]byte{stateVersion, 0, 1, 2, 3})
	f.Add(appendRecord([]byte{stateVersion, recordSize}, wire.Epoch{Counter: 1, Owner: idOf("alpha")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &Membership{wake: make(chan struct{}, 1), refused: map[string]uint64{}, lives: newLives(Member{}, time.Second, isNew)}
		m.hearState(slices.Clone(b))
		for _, ev := range m.Events() {
			if len(ev.Ledger) > MaxLedger || ev.Kind == LedgerReceived && !bytes.HasSuffix(b, ev.Ledger) {
				t.Errorf("%x gives %v", b, ev)
			}
		}
	})
}
