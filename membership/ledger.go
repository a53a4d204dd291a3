package membership

import (
	"bytes"
	"errors"
	"fmt"
)

// What the two sides of a push/pull tell each other: the leader record and, of an
// agent that knows of any, the ledger of jobs, whose bytes mean nothing here.
//
//	0  1  version = 2; 1 is a leader record alone, as a ping's answer has it
//	1  1  length of the leader record: 0 or 25
//	2  …  leader record
//	…  …  ledger; empty: it knows nothing of jobs
const stateVersion = 2

// MaxLedger bounds a ledger, in bytes. A host with less memory than a few of them
// runs no agent.
const MaxLedger = 1 << 19

// maxLedgers is how many ledgers wait for the agent's loop, which takes them
// within milliseconds. What does not fit is not lost: whoever told it tells it
// again at the next push/pull. Arbitrary.
const maxLedgers = 8

// ledgers is our own and those that were heard. Membership's mu guards it.
type ledgers struct {
	own   []byte // never changed, only replaced
	heard [][]byte
}

// take gives the ledgers that were heard, each content once.
func (l *ledgers) take() [][]byte {
	heard := l.heard
	l.heard = nil
	return heard
}

// add keeps a ledger that says something else than our own and those that wait.
func (l *ledgers) add(b []byte) (news bool) {
	if len(b) == 0 || bytes.Equal(b, l.own) || len(l.heard) == maxLedgers {
		return false
	}
	for _, h := range l.heard {
		if bytes.Equal(h, b) {
			return false
		}
	}
	l.heard = append(l.heard, bytes.Clone(b)) // b is memberlist's
	return true
}

// SetLedger sets the ledger that others get with each push/pull. b must not be
// changed after it; more than MaxLedger bytes are not told.
func (m *Membership) SetLedger(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(b) <= MaxLedger {
		m.ledgers.own = b
	}
}

// state is what we tell.
func (m *Membership) state() []byte {
	record := m.record()
	m.mu.Lock()
	ledger := m.ledgers.own
	m.mu.Unlock()
	b := make([]byte, 0, 2+len(record)+len(ledger))
	b = append(b, stateVersion, byte(len(record)))
	b = append(b, record...)
	return append(b, ledger...)
}

// hearState takes what another told.
func (m *Membership) hearState(b []byte) {
	record, ledger, err := cutState(b)
	if err != nil {
		m.count("push-pull-state")
		return
	}
	if len(record) > 0 {
		m.hear(record)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.ledgers.add(ledger) {
		m.signal()
	}
}

// cutState takes a state apart.
func cutState(b []byte) (record, ledger []byte, err error) {
	switch {
	case len(b) < 2 || len(b) < 2+int(b[1]):
		return nil, nil, errors.New("state is cut short")
	case b[0] != stateVersion:
		return nil, nil, fmt.Errorf("state version is %d; expected %d", b[0], stateVersion)
	}
	record, ledger = b[2:2+int(b[1])], b[2+int(b[1]):]
	if len(ledger) > MaxLedger {
		return nil, nil, fmt.Errorf("ledger has %d bytes; expected at most %d", len(ledger), MaxLedger)
	}
	return record, ledger, nil
}
