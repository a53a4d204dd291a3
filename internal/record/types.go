package record

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/pack"
	"github.com/bully-agent/bully-agent/wire"
)

// eventTypes are all events. Their order is part of the format.
var eventTypes = []reflect.Type{
	reflect.TypeFor[election.Tick](), reflect.TypeFor[election.Received](), reflect.TypeFor[election.MemberChanged](),
	reflect.TypeFor[election.LeaderReported](), reflect.TypeFor[election.HealthChanged](), reflect.TypeFor[election.HookEnded](),
	reflect.TypeFor[election.Command](), reflect.TypeFor[election.TetherLost](), reflect.TypeFor[election.Refused](),
	reflect.TypeFor[election.HoldersChanged](), reflect.TypeFor[election.LinkChanged](), reflect.TypeFor[election.Barred](),
	reflect.TypeFor[election.DiskTimed](), reflect.TypeFor[election.SaveFailed](), reflect.TypeFor[election.SaveRecovered](),
	reflect.TypeFor[election.JoinEnded](), reflect.TypeFor[election.Entrusted](), reflect.TypeFor[election.WillHeard](),
	reflect.TypeFor[election.HostsChanged](),
}

// effectTypes are all effects. Their order is part of the format.
var effectTypes = []reflect.Type{
	reflect.TypeFor[election.Send](), reflect.TypeFor[election.LeaseUntil](), reflect.TypeFor[election.Counted](),
	reflect.TypeFor[election.Save](), reflect.TypeFor[election.Transition](), reflect.TypeFor[election.StartHook](),
	reflect.TypeFor[election.HurryHook](), reflect.TypeFor[election.StopHook](), reflect.TypeFor[election.Reply](),
	reflect.TypeFor[election.Departed](), reflect.TypeFor[election.Tether](),
	reflect.TypeFor[election.Will](), reflect.TypeFor[election.Reached](),
}

// The numbers of what comes often, one more than their place in the tables.
const (
	numberTick = iota + 1
	numberReceived
)

const (
	numberSend = iota + 1
	numberLease
	numberCounted
	numberSave
)

// numberReply is of the one effect that pack cannot carry: it has an error.
const numberReply = 9

// values packs events and effects.
var values = pack.Codec{Variants: map[reflect.Type][]reflect.Type{
	reflect.TypeFor[election.Event]():  eventTypes,
	reflect.TypeFor[election.Effect](): effectTypes,
}}

// Schema tells programs apart that do not mean the same by a record's bytes.
func Schema() uint32 {
	b := binary.BigEndian.AppendUint32(nil, election.PictureSchema())
	b = binary.BigEndian.AppendUint32(b, values.Schema(reflect.TypeFor[election.Event](), reflect.TypeFor[election.Effect](), reflect.TypeFor[start]()))
	return crc32.Checksum(b, castagnoli)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// isRoutine: a leadership at rest is made of these, and nothing else.
func isRoutine(k wire.Kind) bool { return k == wire.Heartbeat || k == wire.HeartAck }
