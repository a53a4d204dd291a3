package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A sentence is what stands between two full stops, or all of a list item or table cell that has none.
type sentence struct {
	line  int    // of its first word, from 1
	text  string // as it is read, on one line
	plain string // without marks, an inline code as one word of x
	cell  bool   // it stands in a table, where a phrase without a verb is usual
}

func (s sentence) words() int {
	n := 0
	for _, field := range strings.Fields(s.plain) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// label is the most words of a table cell that is no sentence.
const label = 3

// sentences takes Markdown apart: paragraphs, list items and table cells, without headings and blocks of code.
func sentences(markdown string) []sentence {
	var all []sentence
	for _, u := range unitsOf(markdown) {
		for _, s := range u.sentences() {
			if n := s.words(); n > label || n > 0 && !u.cell {
				all = append(all, s)
			}
		}
	}
	return all
}

// A unit is a paragraph, a list item or a table cell.
type unit struct {
	line int // of its first line, from 1
	text string
	cell bool
}

var (
	item     = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	fence    = regexp.MustCompile("^\\s*(```|~~~)")
	ruler    = regexp.MustCompile(`^\s*(?:[-*_=]\s*){3,}$`)
	indented = regexp.MustCompile(`^(?:    |\t)`)
)

// A reader gathers the units of a document, line by line.
type reader struct {
	units []unit
	open  *unit  // its last line is not known yet
	fence string // that ends the block of code; empty: outside
	item  bool   // indented lines belong to a list
}

func unitsOf(markdown string) []unit {
	var r reader
	for i, line := range strings.Split(markdown, "\n") {
		r.read(i+1, line)
	}
	r.end()
	return r.units
}

func (r *reader) read(number int, line string) {
	trimmed := strings.TrimSpace(line)
	if m := fence.FindStringSubmatch(line); m != nil && (r.fence == "" || r.fence == m[1]) {
		r.end()
		if r.fence == "" {
			r.fence = m[1]
		} else {
			r.fence = ""
		}
		return
	}
	switch {
	case r.fence != "":
	case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<!--") || ruler.MatchString(line):
		r.end()
	case strings.HasPrefix(trimmed, "|"):
		r.end()
		r.row(number, trimmed)
	case item.MatchString(line):
		r.end()
		r.item = true
		r.open = &unit{line: number, text: item.ReplaceAllString(line, "")}
	case r.open != nil:
		r.open.text += "\n" + quoteless(trimmed)
	case indented.MatchString(line) && !r.item:
		// a block of code
	default:
		r.item = r.item && line != strings.TrimLeft(line, " ")
		r.open = &unit{line: number, text: quoteless(trimmed)}
	}
}

func (r *reader) end() {
	if r.open != nil {
		r.units = append(r.units, *r.open)
		r.open = nil
	}
}

// row adds the cells of a table's line. A bar within inline code divides nothing.
func (r *reader) row(number int, line string) {
	line = strings.Trim(line, "|")
	masked, from := unmarked(line), 0
	for i := range len(masked) + 1 {
		if i < len(masked) && (masked[i] != '|' || i > 0 && masked[i-1] == '\\') {
			continue
		}
		r.units = append(r.units, unit{line: number, text: line[from:i], cell: true})
		from = i + 1
	}
}

func quoteless(line string) string { return strings.TrimSpace(strings.TrimLeft(line, ">")) }

var (
	stop = regexp.MustCompile(`[.?!]["')”’]*(?:\s|$)`)
	// what ends in a full stop and ends no sentence
	short = regexp.MustCompile(`(?:^|[\s(])(?:e\.g|i\.e|vs|cf|approx|[A-Z])\.$`)
)

func (u unit) sentences() []sentence {
	masked := unmarked(u.text)
	var all []sentence
	add := func(from, to int) {
		from += len(u.text[from:to]) - len(strings.TrimLeft(u.text[from:to], " \n\t"))
		if text := strings.Join(strings.Fields(u.text[from:to]), " "); text != "" {
			line := u.line + strings.Count(u.text[:from], "\n")
			all = append(all, sentence{line, text, strings.Join(strings.Fields(masked[from:to]), " "), u.cell})
		}
	}
	from := 0
	for _, at := range stop.FindAllStringIndex(masked, -1) {
		if short.MatchString(masked[from : at[0]+1]) {
			continue
		}
		end := at[0] + 1
		for end < len(u.text) && u.text[end] != ' ' && u.text[end] != '\n' { // quotes, and marks that are blank in masked
			end++
		}
		add(from, end)
		from = end
	}
	add(from, len(masked))
	return all
}

var marks = regexp.MustCompile(`\]\([^)\s]*\)|!?\[|\]|\*+|</?[a-z]+[^>]*>`)

// unmarked is the text of the same length in which every inline code is one word of x, and links have lost where they lead.
func unmarked(text string) string {
	masked := []byte(text)
	for i := 0; i < len(text); {
		ticks := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
		if ticks == 0 {
			i++
			continue
		}
		end := strings.Index(text[i+ticks:], text[i:i+ticks])
		if end < 0 {
			break
		}
		fill(masked[i:i+2*ticks+end], 'x')
		i += 2*ticks + end
	}
	for _, at := range marks.FindAllIndex(masked, -1) {
		fill(masked[at[0]:at[1]], ' ')
	}
	return string(masked)
}

func fill(part []byte, with byte) {
	for i := range part {
		part[i] = with
	}
}

func TestSentencesAreSplit(t *testing.T) {
	long := strings.Repeat("word ", 29) + "word."
	for _, tt := range []struct {
		name, text string
		want       []sentence // line, text; and in place of plain nothing
	}{
		{"two in a line", "An agent starts. It listens.", []sentence{{line: 1, text: "An agent starts."}, {line: 1, text: "It listens."}}},
		{"one over lines", "An agent\nstarts, and\nlistens. Then\nit ends.", []sentence{{line: 1, text: "An agent starts, and listens."}, {line: 3, text: "Then it ends."}}},
		{"a question", "Who leads? `status` says it!", []sentence{{line: 1, text: "Who leads?"}, {line: 1, text: "`status` says it!"}}},
		{"in brackets", "It ends (see there.) Then it starts.", []sentence{{line: 1, text: "It ends (see there.)"}, {line: 1, text: "Then it starts."}}},
		{"a heading is none", "# The agent. What it is\n\nIt runs.", []sentence{{line: 3, text: "It runs."}}},
		{"a block is none", "It runs.\n```sh\nls. Then\n```\nIt ends.", []sentence{{line: 1, text: "It runs."}, {line: 5, text: "It ends."}}},
		{"a block in a list", "- It runs:\n\n  ~~~\n  ls. Then\n  ```\n  ~~~\n  It ends.", []sentence{{line: 1, text: "It runs:"}, {line: 7, text: "It ends."}}},
		{"an indented block", "It runs:\n\n    ls. Then\n\nIt ends.", []sentence{{line: 1, text: "It runs:"}, {line: 5, text: "It ends."}}},
		{"items", "- It runs\n  well\n- it ends\n1. so", []sentence{{line: 1, text: "It runs well"}, {line: 3, text: "it ends"}, {line: 4, text: "so"}}},
		{"a paragraph of an item", "- It runs.\n\n    Well.", []sentence{{line: 1, text: "It runs."}, {line: 3, text: "Well."}}},
		{"cells", "| a | b |\n| --- | --- |\n| `a | b` is not the same | It is. It was not so. |", []sentence{
			{line: 3, text: "`a | b` is not the same", cell: true}, {line: 3, text: "It was not so.", cell: true}}},
		{"a full stop in code", "`a. b` is 0.5 s or e.g. an hour, by H. Garcia-Molina. So.", []sentence{
			{line: 1, text: "`a. b` is 0.5 s or e.g. an hour, by H. Garcia-Molina."}, {line: 1, text: "So."}}},
		{"a link and a mark", "See **[the page](a.md).** Then [go](b.md).", []sentence{
			{line: 1, text: "See **[the page](a.md).**"}, {line: 1, text: "Then [go](b.md)."}}},
		{"a quotation", "> It runs\n> well.", []sentence{{line: 1, text: "It runs well."}}},
		{"thirty", long, []sentence{{line: 1, text: long}}},
		{"nothing", "\n\n---\n<!-- It runs. -->\n", nil},
	} {
		got := sentences(tt.text)
		for i := range got {
			got[i].plain = ""
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n%q\nis\n%+v\nexpected\n%+v", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestWordsAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		"An agent starts.": 3,
		"`bully-agent run -i web` starts – on [its own](there.md), twice.": 6,
		"``a ` b`` is *one*.": 3,
	} {
		if got := sentences(text); len(got) != 1 || got[0].words() != want {
			t.Errorf("%q has %d words, expected %d: %+v", text, got[0].words(), want, got)
		}
	}
}
