package keeper

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/checkrun"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// now is on the clock that agent, keeper and holders share.
func now() time.Time { return sidecar.Now() }

// The messages between agent and keeper. Both are one binary, and one execution of the
// agent starts its keepers, so there are no versions.

// verb is what an order wants.
type verb string

const (
	toOpen    verb = "open"     // the first one
	toCleanUp verb = "clean up" // before toRun: Event
	toAdopt   verb = "adopt"    // likewise: Event
	toRun     verb = "run"
	toStart   verb = "start"   // Event, by ID
	toStop    verb = "stop"    // Epoch
	toReach   verb = "reach"   // the leadership has reached hosts that may have followed another
	toTrust   verb = "trust"   // Secret
	toWill    verb = "will"    // Heirs
	toLend    verb = "lend"    // somebody acts on the lease
	toReturn  verb = "return"  // nobody does any more
	toReload  verb = "reload"  // read the settings again
	toRecover verb = "recover" // end what jobs of an earlier life have left
	toBegin   verb = "begin"   // Job
	toEnd     verb = "end"     // Run, Cause
	toSweep   verb = "sweep"   // Known: jobs besides those that are configured whose output is kept
	toLose    verb = "lose"    // for jobs: the leadership has ended; Cause
	toAsk     verb = "ask"     // Program: run it once, and tell what it prints
	toReset   verb = "reset"   // Clients, of the leader before: for the resources that begin next
	toClose   verb = "close"   // end what runs, and go
)

// order is what the agent wants. It names a hook by its event's kind, and a job by its
// name: what these run, the keeper has read itself (Settings).
type order struct {
	Number uint64 // from 1, rising: what is acknowledged
	Do     verb
	Event  hooks.Event
	ID     uint64    // of the event; its end is reported by that
	Due    time.Time // in place of Event.Within, which starts when the agent says so
	Lease  time.Time // the deadline as renewed last, with an event of the leadership
	Epoch  uint64
	Secret []byte // a slice, since gob writes an array in every order
	Heirs  []netip.AddrPort

	Job        *jobrun.Order // its command is the settings'
	Run, Cause string
	Known      []string
	Program    string
	Clients    []resourcerun.Client
}

// word is what a report says.
type word string

const (
	sayAck     word = "read"    // no more than what every report says
	sayWaits   word = "waits"   // for the keeper of an earlier life, Process, which still works
	sayOpened  word = "opened"  // Owed, or Err: this keeper ends
	sayCleaned word = "cleaned" // Outcome
	sayEnded   word = "ended"   // Outcome of a leadership event, in order
	sayDealt   word = "dealt"   // Outcome of the event ID: nothing of it is left to do
	sayLog     word = "log"

	sayRecovered word = "recovered" // Err
	sayJob       word = "job"       // Job
	sayCheck     word = "check"     // Check
	sayReply     word = "reply"     // Reply
	sayResources word = "resources" // Resources, all of them
	sayClients   word = "clients"   // Clients of this host's, all of them
)

// report is what the keeper has to tell.
type report struct {
	Read  uint64 // number of the last order that was read
	Say   word
	Keeps uint64 // epoch of a leadership that keeps its hooks; 0: none

	Process int
	Owed    *hooks.Epoch
	Err     string
	ID      uint64
	Outcome hooks.Result
	Log     *line
	Job     *jobrun.Result
	Check   *checkrun.Report
	Reply   *reply

	Resources []resourcerun.State
	Clients   []resourcerun.Client
}

// plain is a result that a message can hold.
func plain(res hooks.Result) hooks.Result {
	if res.Err != nil {
		res.Err = told{res.Err.Error(), errors.Is(res.Err, hooks.ErrNotRecorded)}
	}
	return res
}

// told is an error that another process has met.
type told struct {
	Text        string
	NotRecorded bool
}

func (t told) Error() string { return t.Text }

// Is implements the interface of errors.Is.
func (t told) Is(err error) bool { return t.NotRecorded && err == hooks.ErrNotRecorded }

// line is one of a log.
type line struct {
	Name  string
	Level hclog.Level
	Text  string
	Args  []any
}

// A datagram is a letter that says how it is written, and a text: a message, mostly. The
// renewals of a lease, one with each heartbeat, have a form of their own.
const (
	asRenewal = 'R' // eight bytes, big endian: the deadline; one that says whether the leadership ends
	asFirst   = 'F' // the beginning of a gob that has several datagrams
	asMore    = 'M' // what follows of it
	asText    = 'T' // gob, or the end of one

	// maxInline is what goes into a datagram, far below what a socket takes by
	// default; what is longer, an event among very many members, goes into several.
	maxInline = 32 << 10
	// maxMessage bounds these together. Arbitrary: a member takes a hundred bytes, and its host
	// would be one of forty thousand.
	maxMessage = 4 << 20
	// maxZeros bounds the zero bytes of an order, and so its structs: gob ends each with one. A
	// member without anything in it is that byte alone, and 200 bytes once it is decoded. A real
	// one has 64 bytes at least, and addresses of heirs may be zeros.
	maxZeros = maxMessage/64 + maxHeirs*32
)

func init() {
	gob.Register(time.Duration(0)) // in line.Args
	gob.Register(told{})           // in Result.Err
}

// encoder writes the messages of one direction. What their types look like is said with
// the first one only, which costs more than all the rest: their order must not change.
type encoder struct {
	text bytes.Buffer
	gob  *gob.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.gob = gob.NewEncoder(&e.text)
	return e
}

// encode gives a text that the next call writes over.
func (e *encoder) encode(message any) []byte {
	e.text.Reset()
	if err := e.gob.Encode(message); err != nil {
		panic("BUG: encode message: " + err.Error()) // all of its types are known here
	}
	return e.text.Bytes()
}

// decoder reads what an encoder wrote.
type decoder struct {
	text bytes.Buffer
	gob  *gob.Decoder
	most int // zero bytes of a message; 0: any number
}

func newDecoder(most int) *decoder {
	d := &decoder{most: most}
	d.gob = gob.NewDecoder(&d.text)
	return d
}

// errTooMuch is returned for a message that would be far larger than its text.
var errTooMuch = errors.New("it holds more than any of ours")

func (d *decoder) decode(text []byte, message any) error {
	if d.most > 0 && bytes.Count(text, []byte{0}) > d.most {
		return fmt.Errorf("decode message: %w", errTooMuch)
	}
	d.text.Reset()
	d.text.Write(text)
	if err := d.gob.Decode(message); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

// renewal is a deadline of the lease; isEnding says that the leadership is being ended
// meanwhile.
type renewal struct {
	deadline time.Time
	isEnding bool
}

const renewalSize = 9

func encodeRenewal(r renewal) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, renewalSize), uint64(sidecar.Nano(r.deadline)))
	if r.isEnding {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeRenewal(text []byte) (r renewal, ok bool) {
	if len(text) != renewalSize {
		return renewal{}, false
	}
	r.isEnding = text[8] != 0
	if at := binary.BigEndian.Uint64(text); at != 0 {
		r.deadline = time.Unix(0, int64(at))
	}
	return r, true
}
