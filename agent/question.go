package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// question is what a host says of itself when it asks another "what do you see of me?" (protocol 11).
type question struct {
	ID   string `json:"id"`
	Addr string `json:"addr"` // that it advertises
	// Large asks for an answer as long as a question can be: a link that loses what is long loses that.
	Large bool `json:"large,omitempty"`
}

// answer is what the other sees. Without a key nothing in it is secret: all of it but the clock is in gossip, or comes from the asker.
type answer struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	// Asked and Answered are its wall clock, Unix nanoseconds, when it had read the question and before it wrote this.
	Asked    int64 `json:"asked"`
	Answered int64 `json:"answered"`

	Source    string `json:"source"`    // address that the question came from
	Datagrams uint64 `json:"datagrams"` // that came from the advertised address meanwhile
	Knows     bool   `json:"knows"`     // the asker is a member here, by id and address; what follows is not tried else
	Pinged    bool   `json:"pinged"`    // the asker answered a ping
	Knock     string `json:"knock"`     // why a stream to the asker could not be opened; empty: it could
	MTU       int    `json:"mtu"`       // of the interface that it advertises; 0: not known

	// Addresses are those that it has while it leads, as leads gives them. They are said to hosts with a key alone.
	Addresses string `json:"addresses,omitempty"`
}

// maxWords bounds question and answer, in bytes of JSON; largeWords is how long one is made that tries the path.
const (
	maxWords   = 4096
	largeWords = 3500
)

var errWords = errors.New("the other host sent neither a question nor an answer")

// say writes v behind its length, at least so long.
func say(w io.Writer, v any, least int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text = append(text, strings.Repeat(" ", max(least-len(text), 0))...)
	if len(text) > maxWords {
		return errWords
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

// listen reads what say has written, and no more of what is no such thing.
func listen(r io.Reader, v any) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n == 0 || n > maxWords {
		return errWords
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %w", errWords, err)
	}
	return nil
}

// check refuses what no agent says. What it passes can be shown to people.
func (a answer) check(of wire.ID) error {
	id, err := wire.ParseID(a.ID)
	switch {
	case err != nil || id != of:
		return fmt.Errorf("another agent is there: id %.36q", a.ID)
	case len(a.Version) > maxVersion || !isPlain(a.Version) || !isPlain(a.Knock) || len(a.Knock) > maxKnock:
		return errWords
	case a.Answered < a.Asked || a.MTU < 0 || a.MTU > 1<<20:
		return errWords
	case !areAddresses(a.Addresses):
		return errWords
	}
	if _, err := netip.ParseAddr(a.Source); err != nil {
		return errWords
	}
	return nil
}

const (
	maxVersion = 80
	maxKnock   = 120
	// maxAddresses leaves room for all else that an answer says.
	maxAddresses = 2048
)

// noAddresses is said by a host that would have none.
const noAddresses = "none"

// areAddresses reports whether this is what leads gives.
func areAddresses(text string) bool {
	if text == "" || text == noAddresses {
		return true
	}
	isNone := func(word string) bool { _, err := netip.ParseAddr(word); return err != nil || !isPlain(word) }
	return len(text) <= maxAddresses && !slices.ContainsFunc(strings.Split(text, " "), isNone)
}

// isPlain: nothing in the text moves a cursor.
func isPlain(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// asker finds the member that a question names, by id and address both: nobody has us send to anywhere else.
func (q question) asker(known []membership.Member) (membership.Member, bool) {
	for _, m := range known {
		if m.ID.String() == q.ID && m.Addr.String() == q.Addr {
			return m, true
		}
	}
	return membership.Member{}, false
}
