package reader

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

// Whatever a reader sends its agent is a question of a kind that there is, or none.
func FuzzQuestion(f *testing.F) {
	f.Add(question{ofExplanation, 7, "beta"}.append(nil))
	f.Add([]byte{byte(kinds), 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, datagram []byte) {
		q, ok := parseQuestion(datagram)
		if !ok {
			return
		}
		if q.kind >= kinds || !bytes.Equal(q.append(nil), datagram) {
			t.Errorf("%+v of %x", q, datagram)
		}
	})
}

// Whatever a reader sends the log is one line of what can be seen.
func FuzzLine(f *testing.F) {
	f.Add("answering the network", "addr", "127.0.0.1")
	f.Add("a\nb", "\x1b[2J", "\u202e")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		log := &lines{}
		line{Text: text, Args: []string{name, value}}.write(log.logger("reader"))
		got := log.String()
		if strings.Count(got, "\n") > 1 || strings.ContainsFunc(strings.TrimSuffix(got, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", got)
		}
	})
}

// Whatever is on a board in the place of events, a reader takes events that it has not, or none.
func FuzzEvents(f *testing.F) {
	f.Add(uint64(0), []byte(`{"seq":1}`+"\n"+`{"seq":2}`))
	f.Add(uint64(1), []byte("\n\n{}"))
	f.Fuzz(func(t *testing.T, last uint64, text []byte) {
		fresh, _ := newerThan(last, text)
		for _, e := range fresh {
			if e.Seq <= last {
				t.Errorf("event %d after %d", e.Seq, last)
			}
		}
	})
}
