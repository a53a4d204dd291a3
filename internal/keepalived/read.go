// Package keepalived reads the configuration of keepalived and says what of it an agent of ours does: Read makes statements
// of the text, Convert makes an agent's settings of those, and every line is either in one of them or named as left out.
//
// It runs nothing and writes nothing. The language is that of keepalived 2.2 (keepalived.conf(5)): includes, comments,
// blocks, quoted strings, lines for one configuration id, parameters. Definitions of several lines, ~SEQ and ~LST are
// named and not carried out.
package keepalived

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Statement is one line of the file that says something, with the block that it opens.
type Statement struct {
	File string
	Line int // from 1
	Last int // where its block ends; else Line
	// Words are without quotes, and with parameters replaced.
	Words []string
	Block []*Statement

	hasBlock bool
	fate     fate
}

// fate is what becomes of a statement.
type fate struct {
	kind fateKind
	note string // why it is left out and what to do instead, or what is otherwise than it was
}

type fateKind uint8

const (
	unjudged fateKind = iota
	carried           // an agent has it
	changed           // an agent has it, and it is not quite the same
	leftOut
)

// Name is the first word.
func (s *Statement) Name() string { return s.Words[0] }

// arg is the i-th word after the name; "" if there is none.
func (s *Statement) arg(i int) string {
	if i+1 < len(s.Words) {
		return s.Words[i+1]
	}
	return ""
}

// Source is where files come from.
type Source struct {
	// ID is the configuration id that lines with @ are for: keepalived's --config-id.
	ID       string
	ReadFile func(path string) ([]byte, error)
	Glob     func(pattern string) ([]string, error)
}

const (
	maxFile  = 1 << 20 // bytes of one file; arbitrary: a thousand instances are less
	maxFiles = 500     // that are included
	maxLine  = 1 << 16 // bytes of one line with its parameters' values
	maxDepth = 100     // of blocks
)

// Read reads a file and those that it includes. The error is one line: where, what, and what was expected.
func Read(path string, src Source) ([]*Statement, error) {
	if src.ReadFile == nil {
		src.ReadFile = readFile
	}
	if src.Glob == nil {
		src.Glob = filepath.Glob
	}
	r := &reader{Source: src, parameters: map[string]string{}}
	r.open = []*Statement{{}}
	if err := r.file(path); err != nil {
		if foreign := foreign(r.open[0].Block); foreign != nil {
			err = fmt.Errorf("%s: %w", path, foreign) // what is wrong with it then, nobody wants to know
		}
		return nil, err
	}
	if len(r.open) > 1 {
		s := r.open[len(r.open)-1]
		return nil, fmt.Errorf("%s:%d: the block of %s is not closed: expected a }", s.File, s.Line, s.Name())
	}
	return r.open[0].Block, nil
}

// readFile reads no more than a file may have, and waits for nobody: an include may name a device or a pipe.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() && !info.IsDir() { // reading a directory says that it is one
		return nil, errors.New("it is no file: expected a keepalived.conf")
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// foreign is the error for a file that says something, and nothing that keepalived knows.
func foreign(file []*Statement) error {
	isKnown := func(s *Statement) bool { return s.fate.kind != unjudged || isTopLevel(s.Name()) }
	if len(file) == 0 || slices.ContainsFunc(file, isKnown) {
		return nil
	}
	return fmt.Errorf("it is no keepalived.conf: line %d begins with %s, expected global_defs, vrrp_script, vrrp_instance or the like",
		file[0].Line, strconv.Quote(cut(file[0].Name())))
}

// reader holds what is read so far.
type reader struct {
	Source
	parameters map[string]string
	within     []string // the files that are being read, each included by the one before
	files      int
	open       []*Statement // the blocks that are open, the file's own first
	last       *Statement   // may still get its block, on a line of its own
}

// file reads one file.
func (r *reader) file(path string) error {
	if slices.Contains(r.within, path) {
		return fmt.Errorf("%s: it includes itself: %s", r.within[0], strings.Join(append(r.within, path), " includes "))
	}
	if r.files++; r.files > maxFiles {
		return fmt.Errorf("%s: more than %d files are included", r.within[0], maxFiles)
	}
	text, err := r.ReadFile(path)
	if err == nil {
		err = checkText(text)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("no such file")
	} else if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.within = append(r.within, path)
	number := 0
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range bytes.Lines(text) {
		number++
		if err := r.line(path, number, string(line)); err != nil {
			return err
		}
	}
	r.within = r.within[:len(r.within)-1]
	return nil
}

// checkText refuses what is no text.
func checkText(text []byte) error {
	switch {
	case len(text) > maxFile:
		return fmt.Errorf("it has more than %d bytes: expected a keepalived.conf", maxFile)
	case bytes.IndexByte(text, 0) >= 0:
		return errors.New("it is no text: expected a keepalived.conf")
	}
	number := 0
	for line := range bytes.Lines(text) {
		if number++; !utf8.Valid(line) {
			return fmt.Errorf("line %d is not UTF-8: expected a keepalived.conf; if it is one in Latin-1: iconv -f latin1 -t utf-8", number)
		}
	}
	return nil
}

var definition = regexp.MustCompile(`^\s*\$([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// line reads one line.
func (r *reader) line(file string, number int, text string) error {
	text = strings.TrimSpace(uncommented(text))
	if text == "" {
		return nil
	}
	if isInclude(text) {
		return r.include(file, number, text)
	}
	text = r.replaced(text)
	if strings.HasPrefix(text, "@") {
		condition, rest, _ := strings.Cut(text[1:], " ")
		if tab := strings.IndexByte(condition, '\t'); tab >= 0 {
			condition, rest = condition[:tab], condition[tab:]+" "+rest
		}
		id, isNot := strings.CutPrefix(condition, "^")
		if (id == r.ID) == isNot {
			r.skip(file, number, text, fmt.Sprintf("it is not for %s, which this is imported for: --id says for whom", r.ID))
			return nil
		}
		text = strings.TrimSpace(rest)
	}
	if m := definition.FindStringSubmatch(text); m != nil {
		if strings.HasSuffix(m[2], `\`) {
			r.skip(file, number, text, "a definition of several lines is not read: write the lines out where it is used")
			return nil
		}
		r.parameters[m[1]] = strings.TrimSpace(m[2])
		r.keep(&Statement{File: file, Line: number, Words: []string{text}, fate: fate{kind: carried}})
		return nil
	}
	if strings.HasPrefix(text, "~") {
		r.skip(file, number, text, "a sequence is not read: write its lines out")
		return nil
	}
	return r.statements(file, number, text)
}

// skip keeps a line that is left out whatever it says.
func (r *reader) skip(file string, number int, text, why string) {
	r.keep(&Statement{File: file, Line: number, Words: []string{text}, fate: fate{leftOut, why}})
}

func (r *reader) keep(s *Statement) {
	s.Last = max(s.Last, s.Line)
	in := r.open[len(r.open)-1]
	in.Block = append(in.Block, s)
	r.last = nil
}

// uncommented is the line without its comment.
func uncommented(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#' || c == '!':
			return line[:i]
		}
	}
	return line
}

func isInclude(text string) bool {
	word, _, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	return slices.Contains([]string{"include", "includer", "includem", "includew", "includeb", "includea"}, word)
}

// include reads the files that a line names.
func (r *reader) include(file string, number int, text string) error {
	at := fmt.Sprintf("%s:%d", file, number)
	words := strings.Fields(text)
	if len(words) != 2 {
		return fmt.Errorf("%s: %s: expected one file", at, text)
	}
	pattern := strings.Trim(words[1], `"'`)
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(file), pattern)
	}
	found := []string{pattern}
	if strings.ContainsAny(pattern, "*?[{") {
		var err error
		if found, err = r.Glob(pattern); err != nil || strings.ContainsAny(pattern, "{}") {
			return fmt.Errorf("%s: %s: expected a file, or a pattern of *, ? and []", at, text)
		}
	}
	if len(found) == 0 {
		r.skip(file, number, text, "no file matches it")
	} else {
		r.keep(&Statement{File: file, Line: number, Words: words, fate: fate{kind: carried}})
	}
	for _, name := range found {
		if err := r.file(filepath.Clean(name)); err != nil {
			if len(r.within) == 1 && strings.Contains(err.Error(), "no such file") {
				return fmt.Errorf("%s: %s: no such file", at, text)
			}
			return err
		}
	}
	return nil
}

var parameter = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)(\s|$)`)

// replaced is the line with the values of parameters, which may have parameters themselves.
func (r *reader) replaced(text string) string {
	for range 10 { // arbitrary: one that has itself in it would go on for ever
		before, room := text, maxLine
		text = parameter.ReplaceAllStringFunc(text, func(use string) string {
			m := parameter.FindStringSubmatch(use)
			value, ok := r.parameters[m[1]+m[2]]
			if room -= len(value); !ok || room < 0 {
				return use
			}
			return value + m[3]
		})
		if text == before || len(text) > maxLine {
			break
		}
	}
	return text
}

// statements reads what is left of a line: words, and braces of blocks.
func (r *reader) statements(file string, number int, text string) error {
	words, err := split(text)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", file, number, err)
	}
	var said []string
	end := func() {
		if len(said) > 0 {
			s := &Statement{File: file, Line: number, Words: said}
			r.keep(s)
			r.last, said = s, nil
		}
	}
	for _, w := range words {
		switch w {
		case open:
			end()
			if r.last == nil || r.last.hasBlock || len(r.open) > maxDepth {
				return fmt.Errorf("%s:%d: a { without a name before it: is this a keepalived.conf?", file, number)
			}
			r.last.hasBlock = true
			r.open, r.last = append(r.open, r.last), nil
		case shut:
			end()
			if len(r.open) == 1 {
				return fmt.Errorf("%s:%d: a } without a { before it: is this a keepalived.conf?", file, number)
			}
			r.open[len(r.open)-1].Last = number
			r.open, r.last = r.open[:len(r.open)-1], nil
		default:
			said = append(said, strings.TrimPrefix(w, quoted))
		}
	}
	end()
	return nil
}

// What split says of braces that are none of a string's, and of a string that is a brace.
const (
	open   = "{"
	shut   = "}"
	quoted = "\x01"
)

// split takes a line apart into words. Quotes may stand in the middle of a word, as in a shell's; a word with quotes that
// says { or } is marked. Other braces are words by themselves, with or without space around them.
func split(text string) (words []string, err error) {
	var word strings.Builder
	quote, has, inName := rune(0), false, false
	end := func() {
		if has || word.Len() > 0 {
			w := word.String()
			if has && (w == open || w == shut) {
				w = quoted + w
			}
			words = append(words, w)
		}
		word.Reset()
		has, inName = false, false
	}
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'' && word.Len() == 0:
			quote, has = c, true
		case c == ' ' || c == '\t':
			end()
		case c == '{' && strings.HasSuffix(word.String(), "$"): // ${a}, and nothing defines a
			word.WriteRune(c)
			inName = true
		case c == '}' && inName:
			word.WriteRune(c)
			inName = false
		case c == '{' || c == '}':
			end()
			words = append(words, string(c))
		default:
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c has no second one on its line", quote)
	}
	end()
	return words, nil
}
