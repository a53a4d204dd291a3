package holder

import (
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// The socket keeps messages apart (SOCK_SEQPACKET). Each is JSON and has all that is known, so
// that one which is lost, because the other side does not read, is made up for by the next.

// now is on the clock that agent, keeper and holders share.
func now() time.Time { return sidecar.Now() }

// earlier is the earlier of two, of which either may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// letter is what the starter says.
type letter struct {
	Terms
	Stop   bool      `json:",omitzero"`
	Cause  string    `json:",omitzero"` // of the stop
	Due    time.Time `json:",omitzero"` // when all is dead that is to stop; zero: after the grace
	Signal int       `json:",omitzero"` // for the command's group, once; 0: none
}

const (
	// maxMessage is far above what a message takes: only texts can be long, and are cut.
	maxMessage = 16 << 10
	// maxText is what a message holds of one text, in bytes, which JSON may make six times as long.
	maxText = 512
)

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// encode gives a message; the record has all of a report's texts.
func encode(message any) []byte {
	switch m := message.(type) {
	case letter:
		m.Cause = cut(m.Cause)
		message = m
	case Report:
		m.Loss, m.Err = cut(m.Loss), cut(m.Err)
		message = m
	}
	return sidecar.Encode(message)
}
