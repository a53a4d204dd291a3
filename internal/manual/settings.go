package manual

import (
	"regexp"
	"strings"
)

// A setting is one key of the reference configuration, or some that one comment is about.
type setting struct {
	lines     []string // `priority = 100`
	about     string
	isExample bool // what stands there is no default
}

// section is a table of the reference configuration.
type section struct {
	name     string // "[node]", "[[job]]"; "" at the top
	about    string
	settings []setting
}

var (
	keyLine    = regexp.MustCompile(`^[a-z_]+ = `)
	headerLine = regexp.MustCompile(`^\[\[?[a-z]+\]\]?$`)
)

// sectionsOf reads the reference configuration: a comment, then the keys that it is about, a blank line between. Keys
// that are commented out end their comment. It is our own file; a test holds that each key is found.
func sectionsOf(reference string) (sections []section) {
	sections = []section{{}}
	var said []string // paragraphs about no key yet
	for block := range strings.SplitSeq(strings.ReplaceAll("\n"+reference+"\n", "\n#\n", "\n\n"), "\n\n") {
		for _, part := range partsOf(block) {
			last := &sections[len(sections)-1]
			switch {
			case part.header != "":
				sections = append(sections, section{name: part.header, about: strings.Join(said, "\n\n")})
				said = nil
			case len(part.lines) > 0:
				said = nil // the file's own introduction
				last.settings = append(last.settings, part.setting)
			default:
				said = append(said, part.about)
			}
		}
	}
	return sections
}

// part is a header, a setting, or text about neither.
type part struct {
	header string
	setting
}

// partsOf takes a block of lines without a blank one apart.
func partsOf(block string) (parts []part) {
	var comment []string
	flush := func(lines ...string) {
		if n := len(parts); len(comment) == 0 && len(lines) > 0 && n > 0 && len(parts[n-1].lines) > 0 {
			parts[n-1].lines = append(parts[n-1].lines, lines...) // the same comment is about it
		} else if len(comment)+len(lines) > 0 {
			parts = append(parts, part{setting: setting{lines: lines, about: strings.Join(comment, "\n")}})
		}
		comment = nil
	}
	for line := range strings.SplitSeq(strings.Trim(block, "\n"), "\n") {
		text, isComment := strings.CutPrefix(line, "#")
		text = strings.TrimSpace(text)
		switch {
		case headerLine.MatchString(text):
			flush()
			parts = append(parts, part{header: text})
		case isComment:
			comment = append(comment, text)
		case keyLine.MatchString(line):
			flush(line)
		}
	}
	var keys []string
	for len(comment) > 0 && keyLine.MatchString(comment[len(comment)-1]) {
		keys = append([]string{comment[len(comment)-1]}, keys...)
		comment = comment[:len(comment)-1]
	}
	if len(keys) > 0 {
		parts = append(parts, part{setting: setting{keys, strings.Join(comment, "\n"), true}})
		return parts
	}
	flush()
	return parts
}

// Settings adds the reference configuration to the page: a part for each table, an item for each key. note says of
// "node.priority" what the comment does not; "" is nothing.
func (p *Page) Settings(reference string, note func(key string) string) {
	for _, s := range sectionsOf(reference) {
		p.Heading(strings.TrimSuffix("SETTINGS IN "+s.name, " IN "))
		if s.about != "" {
			p.Paragraphs(s.about)
		}
		for _, setting := range s.settings {
			p.setting(s, setting, note)
		}
	}
}

func (p *Page) setting(of section, s setting, note func(string) string) {
	var text, examples, notes []string
	for line := range strings.SplitSeq(s.about, "\n") {
		if keyLine.MatchString(line) {
			examples = append(examples, line)
		} else {
			text = append(text, line)
		}
	}
	for _, line := range s.lines {
		key, _, _ := strings.Cut(line, " ")
		if said := note(strings.TrimPrefix(strings.Trim(of.name, "[]")+"."+key, ".")); said != "" {
			notes = append(notes, said)
		}
	}
	p.Item(strings.Join(text, "\n"), labels(of, s)...)
	if len(examples) > 0 {
		p.Verbatim(examples...)
	}
	if len(notes) > 0 {
		p.b.WriteString(".IP\n" + filled(strings.Join(notes, " ")))
	}
}

// labels are the lines with their keys; one whose default depends on the host or on another key says so. In a [[table]]
// everything is an example.
func labels(of section, s setting) []string {
	if !s.isExample || strings.HasPrefix(of.name, "[[") {
		return s.lines
	}
	var out []string
	for _, line := range s.lines {
		out = append(out, line+"  (an example)")
	}
	return out
}
