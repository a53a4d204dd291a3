package docs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// lenient are the pages in which sentences may offend, within the bound of all documents. They wait for another issue;
// each other page is strict from its first sentence on.
var lenient = []string{
	"docs/protocol.md",
	"docs/security.md",
}

// bounds are the shares of sentences that may offend, in each kind of text: the day's on which it was set, and only lowered.
var bounds = map[string]float64{
	documents: 0.0310,
	helps:     0.0033,
	messages:  0.0014,
}

// What people read is read once. No sentence of a page offends against a rule, those of lenient apart; and in each kind of
// text the share of those that do does not rise. With -v it prints the table of pages; and where BULLY_SENTENCES names a page
// (docs/hooks.md), the help and messages of a directory (internal/cli) or a kind (help), the offenders there instead.
func TestSentences(t *testing.T) {
	asked := os.Getenv("BULLY_SENTENCES")
	all := texts(t)
	for _, path := range lenient {
		if !slices.ContainsFunc(all, func(of text) bool { return of.path == path }) {
			t.Errorf("there is no page %s", path)
		}
	}
	totals := map[string]*tally{documents: {}, helps: {}, messages: {}}
	for _, of := range all {
		here, found := judge(of)
		totals[of.kind].add(here)
		for _, offender := range found {
			switch {
			case of.kind == documents && !slices.Contains(lenient, of.path):
				t.Error(offender)
			case isAsked(of, asked):
				t.Log(offender)
			}
		}
		if of.kind == documents && asked == "" && testing.Verbose() {
			t.Log(here.row(of.path))
		}
	}
	for _, kind := range []string{documents, helps, messages} {
		bound := bounds[kind]
		if testing.Verbose() {
			t.Log(totals[kind].row(kind))
		}
		if got := totals[kind].share(); got > bound {
			t.Errorf("in %s %.4f of the sentences offend, at most %.4f may: see BULLY_SENTENCES=%s go test -v -run TestSentences ./internal/test/docs",
				kind, got, bound, kind)
		}
	}
	if len(all) < 100 || totals[documents].sentences < 1000 || totals[helps].sentences < 300 || totals[messages].sentences < 1000 {
		t.Errorf("only %d texts were found: %v, %v and %v", len(all), totals[documents], totals[helps], totals[messages])
	}
}

func isAsked(of text, what string) bool {
	return what != "" && (what == of.kind || what == of.path || strings.HasPrefix(of.path, what+"/"))
}

// A tally counts the sentences of a page.
type tally struct{ sentences, long, offend int }

func (c *tally) add(other tally) {
	c.sentences += other.sentences
	c.long += other.long
	c.offend += other.offend
}

func (c tally) share() float64 { return float64(c.offend) / float64(max(c.sentences, 1)) }

func (c tally) row(name string) string {
	return fmt.Sprintf("%-52s %5d sentences %4d over %d words %4d offend %5.1f %%", name, c.sentences, c.long, longest, c.offend, 100*c.share())
}

// judge counts, and names each offender with its place.
func judge(of text) (c tally, found []string) {
	for _, s := range of.sentences {
		c.sentences++
		if s.words() > longest {
			c.long++
		}
		if offend := offences(of.path, s); len(offend) > 0 {
			c.offend++
			found = append(found, fmt.Sprintf("%s:%d: %s\n\t%s", of.path, s.line, strings.Join(offend, "; "), s.text))
		}
	}
	return c, found
}
