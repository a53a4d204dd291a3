package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// now is on the clock that agent, keeper and holders share.
func now() time.Time { return sidecar.Now() }

// The messages between agent and keeper (package sidecar). An execution of the agent starts its keepers,
// from its own file as it was: so both speak one version, or somebody has mixed two programs.

// version is that of what follows. Each change raises it: the first order and its answer have it, and
// these two are what they are in each version.
const version = 5

// sameVersion says what is wrong if the other side speaks another one.
func sameVersion(theirs int) error {
	if theirs == version {
		return nil
	}
	return fmt.Errorf("agent and keeper are not of one program: their messages are of versions %d and %d; start the agent again", max(theirs, version), min(theirs, version))
}

// verb is what an order wants.
type verb string

const (
	toOpen    verb = "open"     // the first one: Version
	toCleanUp verb = "clean up" // before toRun: Event
	toAdopt   verb = "adopt"    // likewise: Event
	toRun     verb = "run"
	toStart   verb = "start"   // Event, by ID
	toStop    verb = "stop"    // Epoch
	toReach   verb = "reach"   // the leadership has reached hosts that may have followed another
	toTrust   verb = "trust"   // Secret
	toWill    verb = "will"    // Heirs
	toLend    verb = "lend"    // somebody acts on the lease, until Lease
	toReturn  verb = "return"  // nobody does any more
	toReload  verb = "reload"  // read the settings again
	toRecover verb = "recover" // end what jobs of an earlier life have left
	toBegin   verb = "begin"   // Job
	toEnd     verb = "end"     // Run, Cause
	toSweep   verb = "sweep"   // Known: jobs besides those that are configured whose output is kept
	toLose    verb = "lose"    // for jobs: the leadership has ended; Cause
	toAsk     verb = "ask"     // Program: run it once, and tell what it prints
	toReset   verb = "reset"   // Clients, of the leader before: for the resources that begin next
	toAnswer  verb = "answer"  // no more than to be read
	toClose   verb = "close"   // end what runs, and go
)

// order is what the agent wants. It names a hook by its event's kind, and a job by its
// name: what these run, the keeper has read itself (Settings).
type order struct {
	Number  uint64 // from 1, rising: what is acknowledged
	Do      verb
	Version int              `json:",omitzero"`
	Event   hooks.Event      `json:",omitzero"`
	AtStart bool             `json:",omitzero"` // of Event, which has no such field where it is written elsewhere
	ID      uint64           `json:",omitzero"` // of the event; its end is reported by that
	Due     time.Time        `json:",omitzero"` // of hooks.Asked, by the keeper's clock
	Lease   time.Time        `json:",omitzero"` // the deadline as renewed last, with an event of the leadership, or for those who act on it
	Epoch   uint64           `json:",omitzero"`
	Secret  []byte           `json:",omitzero"`
	Heirs   []netip.AddrPort `json:",omitzero"`

	Job     *hooks.JobAttempt    `json:",omitzero"` // its command is the settings'
	Run     string               `json:",omitzero"`
	Cause   string               `json:",omitzero"`
	Known   []string             `json:",omitzero"`
	Program string               `json:",omitzero"`
	Clients []resourcerun.Client `json:",omitzero"`
}

// word is what a report says.
type word string

const (
	sayAck     word = "read"    // no more than what every report says
	sayWaits   word = "waits"   // for the keeper of an earlier life, Process, which still works
	sayOpened  word = "opened"  // Owed, or Err: this keeper ends
	sayCleaned word = "cleaned" // Outcome
	sayEnded   word = "ended"   // Outcome of the event ID, those of a leadership in order; or of none
	sayLog     word = "log"

	sayRecovered word = "recovered" // Err
	sayJob       word = "job"       // Job
	sayCheck     word = "check"     // Check
	sayReply     word = "reply"     // Reply
	sayResources word = "resources" // Resources, all of them
	sayClients   word = "clients"   // Clients of this host's, all of them
	sayReader    word = "reader"    // Reader
)

// report is what the keeper has to tell.
type report struct {
	Read  uint64 // number of the last order that was read
	Say   word
	Keeps uint64 `json:",omitzero"` // epoch of a leadership that keeps its hooks; 0: none

	Version int                `json:",omitzero"`
	Process int                `json:",omitzero"`
	Owed    *hooks.Epoch       `json:",omitzero"`
	Err     string             `json:",omitzero"`
	ID      uint64             `json:",omitzero"`
	Outcome outcome            `json:",omitzero"`
	Log     *line              `json:",omitzero"`
	Job     *hooks.JobResult   `json:",omitzero"`
	Check   *hooks.CheckReport `json:",omitzero"`
	Reply   *reply             `json:",omitzero"`

	Resources []resourcerun.State  `json:",omitzero"`
	Clients   []resourcerun.Client `json:",omitzero"`
	Reader    *reader.State        `json:",omitzero"`
}

// outcome is a result that a message can hold.
type outcome struct {
	hooks.Result
	Err *told `json:",omitzero"` // in place of the result's
}

func tell(res hooks.Result) outcome {
	o := outcome{Result: res}
	o.Started, o.Result.Err = written(o.Started), nil
	if res.Err != nil {
		o.Err = &told{cut(res.Err.Error()), errors.Is(res.Err, hooks.ErrNotRecorded)}
	}
	return o
}

// result is what was told.
func (o outcome) result() hooks.Result {
	if o.Err != nil {
		o.Result.Err = *o.Err
	}
	return o.Result
}

// told is an error that another process has met.
type told struct {
	Text        string
	NotRecorded bool `json:",omitzero"`
}

func (t told) Error() string { return t.Text }

// Is implements the interface of errors.Is.
func (t told) Is(err error) bool { return t.NotRecorded && err == hooks.ErrNotRecorded }

// line is one of a log.
type line struct {
	Name  string `json:",omitzero"`
	Level hclog.Level
	Text  string
	Args  []any `json:",omitzero"`
}

// A message is JSON, or a renewal of the lease: one of those comes with each heartbeat, and has a form
// of its own.

// leastObject bounds the objects of an order by its bytes before it is decoded, but for a few: an empty
// member is two bytes there, and eighty once it is decoded. A real one has eighty at least in both.
const leastObject = 32

var errTooMuch = errors.New("it holds more than any of ours")

// encodeOrder gives a message of an order. Of members for which there is no room a command is not told: it is to run.
func encodeOrder(o order) (text []byte) {
	o.AtStart = o.Event.AtStart
	o.Due, o.Lease, o.Event.Time = written(o.Due), written(o.Lease), written(o.Event.Time)
	if o.Job != nil {
		job := *o.Job
		job.Slot, job.Event.Time, job.Event.Members = written(job.Slot), written(job.Event.Time), nil // of which a job is told nothing
		o.Job = &job
	}
	for text = sidecar.Encode(o); len(text) > sidecar.MaxMessage && len(o.Event.Members) > 0; text = sidecar.Encode(o) {
		o.Event.Members = o.Event.Members[:len(o.Event.Members)*sidecar.MaxMessage/len(text)*15/16]
	}
	return text
}

// decodeOrder reads one.
func decodeOrder(text []byte) (o order, err error) {
	if bytes.Count(text, []byte{'{'}) > 64+len(text)/leastObject {
		return order{}, errTooMuch
	}
	err = sidecar.Decode(text, &o)
	o.Event.AtStart = o.AtStart
	return o, err
}

// written is a time that can be written: of a year with four digits, in a zone of this world.
func written(at time.Time) time.Time {
	if _, err := at.MarshalText(); err != nil {
		return sane(at).UTC()
	}
	return at
}

// renewal is a deadline of the lease; isAlone says that the agent may be silent beyond it, and isEnding that the leadership is being
// ended meanwhile.
type renewal struct {
	deadline          time.Time
	isAlone, isEnding bool
}

// silent is when an agent that is silent has lost the leadership; zero: it has not.
func (r renewal) silent() time.Time {
	if r.isAlone {
		return time.Time{}
	}
	return r.deadline
}

const (
	asRenewal   = 'R' // then eight bytes, big endian: the deadline; and one with these bits
	renewalSize = 10

	bitEnding, bitAlone = 1, 2
)

func encodeRenewal(r renewal) []byte {
	b := binary.BigEndian.AppendUint64([]byte{asRenewal}, uint64(sidecar.Nano(r.deadline)))
	bits := byte(0)
	if r.isEnding {
		bits |= bitEnding
	}
	if r.isAlone {
		bits |= bitAlone
	}
	return append(b, bits)
}

// decodeRenewal reads one; false if it is another message.
func decodeRenewal(text []byte) (r renewal, ok bool) {
	if len(text) != renewalSize || text[0] != asRenewal {
		return renewal{}, false
	}
	bits := text[renewalSize-1]
	r.isEnding, r.isAlone = bits&bitEnding != 0, bits&bitAlone != 0
	if at := binary.BigEndian.Uint64(text[1:]); at != 0 {
		r.deadline = time.Unix(0, int64(at))
	}
	return r, true
}
