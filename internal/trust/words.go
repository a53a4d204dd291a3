package trust

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// What a command runs besides the file that it begins with, as far as that can be
// told without running it: further commands of a shell line, what a wrapper such as
// exec or env is given, the script of an interpreter, and the interpreter of a script.
// Only absolute paths are found. Whatever a shell would have to expand first is not,
// nor what is looked for in PATH, a path relative to a directory, what stands in
// substitutions inside quotes, behind a here-document, or inside of a script.
//
// This serves root only, and only ever adds to what is refused.

// wrappers run the command that is among their words, and interpreters the script.
// None of the former changes the user: what another user owns, that one may run.
var (
	wrappers = []string{"exec", "command", "env", "nohup", "nice", "ionice", "setsid", "timeout", "stdbuf",
		"chrt", "taskset", "busybox", "bully-agent"}
	shells       = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}
	interpreters = append([]string{".", "source", "python", "python2", "python3", "perl", "ruby", "node", "php", "lua"}, shells...)

	// reserved are words after which a shell expects a command.
	reserved = []string{"!", "{", "if", "then", "else", "elif", "while", "until", "do", "time"}
)

// maxNesting bounds scripts of interpreters that are scripts, and shell lines inside of
// commands. The kernel's bound on the former is 5.
const maxNesting = 5

// checkWords reports the first path that the command would run, and that somebody else
// than root could change.
func checkWords(cmd hooks.Command) error { return checkEach(commandsOf(cmd), maxNesting) }

// commandsOf gives a hook's own words, or those of each command of its shell line.
func commandsOf(cmd hooks.Command) [][]word {
	if cmd.Shell != "" {
		return simpleCommands(cmd.Shell)
	}
	argv := make([]word, len(cmd.Argv))
	for i, text := range cmd.Argv {
		argv[i] = word{text: text}
	}
	return [][]word{argv}
}

// Arguments gives what follows these words in each command that begins with a program and them, such as "vip", "add": of a hook's own
// words, or of the commands of its shell line. What a shell would have to expand first is left out.
func Arguments(c hooks.Command, of ...string) (all [][]string) {
	for _, argv := range commandsOf(c) {
		var texts []string
		for _, w := range argv {
			if !w.isOpaque {
				texts = append(texts, w.text)
			}
		}
		for i := 1; i+len(of) <= len(texts); i++ {
			if slices.Equal(texts[i:i+len(of)], of) {
				all = append(all, texts[i+len(of):])
				break
			}
		}
	}
	return all
}

func checkEach(commands [][]word, nesting int) error {
	for _, argv := range commands {
		if err := checkSimple(argv, nesting); err != nil {
			return err
		}
	}
	return nil
}

// checkSimple looks at one command: its words, the first of which is to be run.
func checkSimple(argv []word, nesting int) error {
	for len(argv) > 0 && (slices.Contains(reserved, argv[0].text) || argv[0].isAssignment()) {
		argv = argv[1:]
	}
	if len(argv) == 0 || nesting == 0 {
		return nil
	}
	if err := argv[0].check(nesting); err != nil || argv[0].isOpaque {
		return err
	}
	name := filepath.Base(argv[0].text)
	switch rest := argv[1:]; {
	case slices.Contains(shells, name) && inlineAt(rest) >= 0:
		return checkEach(simpleCommands(rest[inlineAt(rest)].text), nesting-1)
	case slices.Contains(interpreters, name):
		if i := slices.IndexFunc(rest, func(w word) bool { return !strings.HasPrefix(w.text, "-") }); i >= 0 {
			return rest[i].check(nesting)
		}
	case slices.Contains(wrappers, name):
		isCommand := func(w word) bool { // before it come options and their values
			return w.isPath() || slices.Contains(interpreters, w.text) || slices.Contains(wrappers, w.text)
		}
		if i := slices.IndexFunc(rest, isCommand); i >= 0 {
			return checkSimple(rest[i:], nesting-1)
		}
	}
	return nil
}

// inlineAt is where a shell's words have the line of its option -c; -1: they have not.
func inlineAt(rest []word) int {
	for i, w := range rest {
		switch {
		case w.isOpaque || !strings.HasPrefix(w.text, "-"):
			return -1
		case !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c") && i+1 < len(rest) && !rest[i+1].isOpaque:
			return i + 1
		}
	}
	return -1
}

// word is one of a command's. An opaque one holds something that a shell expands.
type word struct {
	text     string
	isOpaque bool
}

func (w word) isPath() bool { return !w.isOpaque && filepath.IsAbs(w.text) }

// isAssignment reports whether the word is NAME=value.
func (w word) isAssignment() bool {
	name, _, ok := strings.Cut(w.text, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// check looks at a path that would be run, and at what runs it if that is a script. It
// need not exist yet, so that only the directories on the way there can be looked at.
// What is there and is no file is no command either.
func (w word) check(nesting int) error {
	if !w.isPath() || nesting == 0 {
		return nil
	}
	if info, err := os.Stat(w.text); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err := CheckPath(w.text); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		return err
	}
	return checkSimple(hashBang(w.text), nesting-1)
}

// hashBang is the first line of a script: its interpreter, and the one argument that
// this gets as it is. Where env is the interpreter, what it looks for is not followed.
func hashBang(path string) []word {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // which waits for nobody
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n') // the kernel reads no more
	line, ok := strings.CutPrefix(head, "#!")
	if !ok {
		return nil
	}
	line = strings.Trim(line, " \t\n")
	interpreter, argument, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	words := []word{{text: interpreter}}
	if argument = strings.TrimLeft(argument, " "); argument != "" {
		words = append(words, word{text: argument})
	}
	return words
}

// simpleCommands splits a shell line into commands, and these into words, without
// redirections. It ends at a here-document.
func simpleCommands(line string) [][]word {
	s := splitter{rest: line}
	for s.rest != "" && s.next() {
	}
	s.endCommand()
	for len(s.outer) > 0 {
		s.leave()
	}
	s.endCommand()
	return s.commands
}

// splitter is a shell's first step, and no more of it.
type splitter struct {
	rest     string
	commands [][]word
	state
	outer []state // commands with a substitution that is being read, and brackets
}

// state is a command being read.
type state struct {
	command  []word
	text     string
	isOpaque bool
	isWord   bool // there is one, though it may be empty
	isTarget bool // it is the target of a redirection
	isQuoted bool // what is read meanwhile ends with a backquote
}

// next takes one character, or what belongs together; false ends.
func (s *splitter) next() bool {
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case c == '\'':
		quoted, rest, _ := strings.Cut(s.rest, "'")
		s.add(quoted)
		s.rest = rest
	case c == '"':
		s.double()
	case c == '\\':
		s.escaped()
	case c == '#' && !s.isWord:
		_, s.rest, _ = strings.Cut(s.rest, "\n")
		s.endCommand()
	case c == '<' || c == '>':
		return s.redirect(c)
	case strings.IndexByte(" \t", c) >= 0:
		s.endWord()
	case strings.IndexByte("\n;&|", c) >= 0:
		s.endCommand()
	case c == '(':
		s.enter(strings.HasSuffix(s.text, "$"), false)
	case c == '`' && !(len(s.outer) > 0 && s.outer[len(s.outer)-1].isQuoted):
		s.enter(true, true)
	case c == ')' || c == '`':
		s.leave()
	default:
		s.isOpaque = s.isOpaque || strings.IndexByte("$*?[", c) >= 0
		s.add(string([]byte{c}))
	}
	return true
}

func (s *splitter) add(text string) {
	s.isWord = true
	s.text += text
}

// enter begins a substitution, in the middle of a word, or a command in brackets.
func (s *splitter) enter(isInWord, isQuoted bool) {
	if isInWord {
		s.add("")
		s.isOpaque = true
	} else {
		s.endCommand()
	}
	s.isQuoted = isQuoted
	s.outer = append(s.outer, s.state)
	s.state = state{}
}

// leave ends it. A bracket that was not opened is that of a case.
func (s *splitter) leave() {
	s.endCommand()
	if n := len(s.outer); n > 0 {
		s.state, s.outer = s.outer[n-1], s.outer[:n-1]
		s.isQuoted = false
	}
}

// double takes what is left of a text in double quotes.
func (s *splitter) double() {
	s.add("")
	for s.rest != "" && s.rest[0] != '"' {
		if s.rest[0] == '\\' {
			s.rest = s.rest[1:]
			s.escaped()
			continue
		}
		s.isOpaque = s.isOpaque || s.rest[0] == '$' || s.rest[0] == '`'
		s.add(s.rest[:1])
		s.rest = s.rest[1:]
	}
	s.rest = strings.TrimPrefix(s.rest, `"`)
}

// escaped takes the character after a backslash; a line that goes on has none.
func (s *splitter) escaped() {
	if s.rest == "" {
		return
	}
	if s.rest[0] != '\n' {
		s.add(s.rest[:1])
	}
	s.rest = s.rest[1:]
}

// redirect takes an operator; its target is dropped with the next word, and the number
// of a descriptor before it. It reports false for a here-document.
func (s *splitter) redirect(c byte) bool {
	if s.isWord && strings.Trim(s.text, "0123456789") == "" {
		s.text, s.isWord = "", false
	}
	s.endWord()
	if c == '<' && strings.HasPrefix(s.rest, "<") {
		return false
	}
	s.rest = strings.TrimLeft(s.rest, "<>&|")
	s.rest = strings.TrimLeft(s.rest, " \t")
	s.isTarget = true
	return true
}

func (s *splitter) endWord() {
	if s.isWord && !s.isTarget {
		s.command = append(s.command, word{text: s.text, isOpaque: s.isOpaque})
	}
	s.text = ""
	s.isTarget = s.isTarget && !s.isWord
	s.isWord, s.isOpaque = false, false
}

func (s *splitter) endCommand() {
	s.endWord()
	s.isTarget = false
	if len(s.command) > 0 {
		s.commands = append(s.commands, s.command)
		s.command = nil
	}
}
