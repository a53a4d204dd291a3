// Package manual writes manual pages in roff, with the macros of man(7), and knows how the reference configuration
// becomes one. What they say is the command line's (internal/cli) and the configuration's (internal/config). Nothing of
// it is in the program: internal/manual/gen writes the pages for the packages.
package manual

import (
	"fmt"
	"strings"
)

// Page is one manual page, written from top to bottom.
type Page struct {
	Name    string // "bully-agent-status": the file's name, with Section
	Section int    // 1: commands; 5: files
	b       strings.Builder
}

// Edition is what the foot of each page names.
type Edition struct {
	Version string
	Day     string // 2026-01-31
}

// New begins a page; summary is one line, lower case, without a full stop, as apropos(1) shows it.
func New(name string, section int, summary string, e Edition) *Page {
	p := &Page{Name: name, Section: section}
	fmt.Fprintf(&p.b, ".TH %s %d %s \"bully\\-agent %s\" \"bully\\-agent\"\n", escape(strings.ToUpper(name)), section, e.Day, escape(e.Version))
	p.Heading("NAME")
	p.Paragraphs(name + " - " + summary)
	return p
}

// File is the name of the page's file, uncompressed.
func (p *Page) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// Text is the page as it stands in the file.
func (p *Page) Text() string { return p.b.String() }

// Heading begins a section; by custom it is in capitals.
func (p *Page) Heading(title string) { fmt.Fprintf(&p.b, ".SH %s\n", argument(title)) }

// Subheading begins a part of a section.
func (p *Page) Subheading(title string) { fmt.Fprintf(&p.b, ".SS %s\n", argument(title)) }

// argument is one argument of a macro.
func argument(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }

// Paragraphs adds running text: blank lines part paragraphs, `this` is bold. The first needs no macro after a heading,
// where one would be superfluous.
func (p *Page) Paragraphs(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if !strings.HasPrefix(lastLine(p.b.String()), ".S") {
			p.b.WriteString(".PP\n")
		}
		p.b.WriteString(filled(paragraph))
	}
}

// Item is a label, in bold, and what there is to say about it, indented.
func (p *Page) Item(text string, labels ...string) {
	for i, label := range labels {
		macro := ".TP"
		if i > 0 {
			macro = ".TQ"
		}
		p.b.WriteString(macro + "\n\\fB" + escape(label) + "\\fR\n")
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.b.WriteString(".IP\n")
		}
		p.b.WriteString(filled(paragraph))
	}
}

// Row is a short label and a line about it, in a column.
func (p *Page) Row(label, text string) {
	p.b.WriteString(".TP 16\n\\fB" + escape(label) + "\\fR\n" + filled(text))
}

// Verbatim shows lines as they are, indented; in an item they belong to it.
func (p *Page) Verbatim(lines ...string) {
	within := strings.Contains(lastMacro(p.b.String()), "P") // .TP, .IP
	if within {
		p.b.WriteString(".IP\n")
	} else if !strings.HasPrefix(lastLine(p.b.String()), ".S") {
		p.b.WriteString(".PP\n")
	}
	p.b.WriteString(".nf\n")
	for _, line := range lines {
		p.b.WriteString(guarded(escape(line)) + "\n")
	}
	p.b.WriteString(".fi\n")
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// lastMacro is the last of those that begin a paragraph or a section: the line of it.
func lastMacro(s string) (macro string) {
	for line := range strings.Lines(s) {
		for _, m := range []string{".SH", ".SS", ".PP", ".TP", ".IP"} {
			if strings.HasPrefix(line, m) {
				macro = strings.TrimPrefix(m, ".P")
			}
		}
	}
	return macro
}

// width is where lines of running text are broken in the source; the reader's terminal breaks them anew.
const width = 76

// filled is running text in roff, `bold` spans included.
func filled(text string) string {
	var b strings.Builder
	column, bold := 0, false
	for _, word := range strings.Fields(text) {
		var out strings.Builder
		for i, part := range strings.Split(word, "`") {
			if i > 0 {
				bold = !bold
				out.WriteString(map[bool]string{true: `\fB`, false: `\fR`}[bold])
			}
			out.WriteString(escape(part))
		}
		switch {
		case column == 0:
			column += write(&b, guarded(out.String()))
		case column+1+out.Len() > width:
			b.WriteByte('\n')
			column = write(&b, guarded(out.String()))
		default:
			column += write(&b, " "+out.String())
		}
	}
	if bold {
		b.WriteString(`\fR`)
	}
	return b.String() + "\n"
}

func write(b *strings.Builder, s string) int {
	b.WriteString(s)
	return len(s)
}

// guarded keeps a line from being taken for a macro.
func guarded(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// escape makes text safe to stand in roff: a dash stays a dash that can be copied into a shell and searched for.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
