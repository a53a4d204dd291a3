package wire

import "errors"

// The reasons to refuse a frame, in the order in which Parse looks for them.
// Parse returns them bare, so that refusing a flood allocates nothing.
var (
	// ErrShort is returned when there are fewer than MinFrame bytes.
	ErrShort = refused("short", "shorter than header and checksum (80 bytes)")

	// ErrMagic is returned when the bytes do not start with Magic0, Magic1:
	// this is not an election frame.
	ErrMagic = refused("magic", "no magic b71e at the start")

	// ErrVersion is returned when the major version is not 3.
	ErrVersion = refused("version", "major version is not 3")

	// ErrLength is returned when the frame's own length is not the number of
	// bytes that arrived, or is above MaxFrame: cut off, glued together, or
	// damaged.
	ErrLength = refused("length", "length field is not the datagram's size, or above 1200")

	// ErrChecksum is returned when the CRC32C is not that of the bytes before it.
	ErrChecksum = refused("checksum", "wrong checksum")

	// ErrSeat is returned when an intact frame is of another seat than 0: a newer
	// member speaks of a leadership that this version does not hold.
	ErrSeat = refused("seat", "number of the leadership is not 0")

	// ErrKind is returned when an intact frame is of kind 0, or of a kind from 25
	// to 127: a newer member speaks.
	ErrKind = refused("kind", "unknown kind")

	// ErrOptional is returned when an intact frame is of a kind from 129 to
	// 255, an extension that this version may ignore. No reason to worry anybody.
	ErrOptional = refused("optional", "unknown kind that may be ignored")

	// ErrBody is returned when the body of an intact frame is shorter than its
	// kind demands. Only a faulty sender makes one.
	ErrBody = refused("body", "body is too short for its kind")

	// ErrVoters is returned when an intact ROSTER counts more than MaxVoters:
	// a part of a roster would give a majority that is none.
	ErrVoters = refused("voters", "roster of more than 15 voters")

	// ErrPayload is returned when an intact frame's payload is longer than the
	// frame, or than MaxPayload. Only a faulty sender makes one.
	ErrPayload = refused("payload", "payload is longer than its frame, or above 1100 bytes")
)

// refusal has the one word under which a refused frame is counted and logged. The words
// never change, since dashboards are built on them.
type refusal struct{ word, text string }

func refused(word, text string) error { return &refusal{word, text} }

func (r *refusal) Error() string { return "parse frame: " + r.text }

// Cause gives that word. An error that is not Parse's, wrapped or bare, is "other".
func Cause(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.word
	}
	return "other"
}
