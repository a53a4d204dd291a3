package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

// liveBound is how long a press of the tabulator waits for the agent. It is arbitrary: an agent answers within
// milliseconds, and a person notices half a second.
const liveBound = 300 * time.Millisecond

// suggestion is one word that may come next.
type suggestion struct {
	word  string
	about string // shown beside it by shells that can; "": nothing
}

// offer says what may stand in one place of a command line: as a flag's value or an argument. nil: whatever the
// placeholder tells.
type offer func(*typed) []suggestion

// typed is a command line that is not finished, as far as it is understood.
type typed struct {
	command command
	flags   map[string]string // those of the command, by name; the last value of each
	program map[string]string // those before the command
	args    []string          // finished arguments
	wants   *option           // the flag whose value the last word is; nil: it is none
	closed  bool              // flags have ended
	last    string            // the word at the cursor, as far as it is there; of --flag=value the value
}

// understand reads the words after the program's name; the last is the one at the cursor, perhaps empty.
func understand(words []string) (t typed) {
	t = typed{command: root(), flags: map[string]string{}}
	for i, word := range words {
		isLast := i == len(words)-1
		name, value, assigned := strings.Cut(word, "=")
		o, isFlag := t.flag(name)
		switch {
		case t.wants != nil:
			if isLast {
				t.last = word
				return t
			}
			t.flags[t.wants.name], t.wants = word, nil
		case isLast && (!isFlag || !assigned):
			t.last = word
		case isFlag && isLast: // --flag=val
			t.wants, t.last = &o, value
		case isFlag && assigned:
			t.flags[o.name] = value
		case isFlag && (o.value == "" || o.optional):
			t.flags[o.name] = "true"
		case isFlag:
			t.wants = &o
		default:
			t.next(word)
		}
	}
	return t
}

// flag finds the flag that a word is.
func (t *typed) flag(word string) (option, bool) {
	name, isFlag := strings.CutPrefix(word, "-")
	if !isFlag || t.closed || len(t.args) > 0 {
		return option{}, false
	}
	name = strings.TrimPrefix(name, "-")
	i := slices.IndexFunc(t.command.options, func(o option) bool { return o.name == name || o.short == name && name != "" })
	if i < 0 {
		return option{}, false
	}
	return t.command.options[i], true
}

// next takes a finished word that is no flag.
func (t *typed) next(word string) {
	switch sub, ok := find(t.command.subcommands, word); {
	case t.closed || len(t.args) > 0:
		t.args = append(t.args, word)
	case word == "--":
		t.closed = true
	case ok:
		if t.program == nil {
			t.program = t.flags
		}
		t.command, t.flags = sub, map[string]string{}
	case !strings.HasPrefix(word, "-"): // else a slip, which is not the completion's to name
		t.args = append(t.args, word)
	}
}

// socket is that of the agent which the command would ask, by its flags, those of the program and the environment. The error
// says that these name an instance that cannot be.
func (t *typed) socket() (string, error) {
	name := given(t.flags, instanceOption)
	if name == nil {
		name = given(t.program, instanceOption)
	}
	of, err := meant(name)
	if err != nil {
		return "", err
	}
	return of.socket(given(t.flags, socketOption)), nil
}

// given is the value of a flag, or nil.
func given(flags map[string]string, o option) *string {
	if text, ok := flags[o.name]; ok {
		return &text
	}
	return nil
}

// Directives to the shell, in place of suggestions: it knows files and commands better.
const (
	fileNames = ":files"
	dirNames  = ":directories"
	aCommand  = ":command" // what follows the first -- is a command line of its own
)

// suggestions are the words that may stand at the cursor and begin as the last one does, or one directive.
func (t *typed) suggestions() []suggestion {
	var all []suggestion
	switch {
	case t.wants != nil:
		all = t.offered(t.wants.offer, t.wants.value)
	case strings.HasPrefix(t.last, "-") && !t.closed && len(t.args) == 0:
		all = t.flagNames()
	case len(t.command.subcommands) > 0:
		for _, sub := range t.command.subcommands {
			all = append(all, suggestion{sub.name, sub.usage})
		}
	case len(t.args) < t.command.maxArgs:
		all = t.offered(t.command.offer, t.command.args)
	case t.command.maxArgs == 0:
		all = t.flagNames()
	}
	if len(all) == 1 && strings.HasPrefix(all[0].word, ":") {
		return all
	}
	return slices.DeleteFunc(all, func(s suggestion) bool { return !strings.HasPrefix(s.word, t.last) })
}

// offered is what an offer says; without one the placeholder of the help tells.
func (t *typed) offered(o offer, placeholder string) []suggestion {
	switch {
	case o != nil:
		return o(t)
	case strings.HasPrefix(placeholder, "-- COMMAND"):
		if !t.closed {
			return []suggestion{{"--", "the command follows"}}
		}
		return []suggestion{{word: aCommand}}
	case strings.Contains(placeholder, "FILE"), placeholder == "PATH":
		return []suggestion{{word: fileNames}}
	case placeholder == "DIR":
		return []suggestion{{word: dirNames}}
	}
	return nil
}

// flagNames are those that may still be given.
func (t *typed) flagNames() (all []suggestion) {
	for _, o := range t.command.options {
		if _, given := t.flags[o.name]; given && !o.many {
			continue
		}
		all = append(all, suggestion{"--" + o.name, o.usage})
	}
	return append(all, suggestion{"--help", "show help"})
}

// fixed offers always the same words.
func fixed(words ...string) offer {
	return func(*typed) (all []suggestion) {
		for _, w := range words {
			all = append(all, suggestion{word: w})
		}
		return all
	}
}

// safeWord is what an answer may put into a shell's command line: nothing that a shell gives a meaning to, nor a flag.
var safeWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:/+-]*$`)

// fromAgent offers what the agent on this host answers, within liveBound, and nothing without one.
func fromAgent(ask func(context.Context, *control.Client, *typed) ([]suggestion, error)) offer {
	return func(t *typed) []suggestion {
		path, err := t.socket()
		if err != nil {
			return nil // as below
		}
		ctx, stop := context.WithTimeout(context.Background(), liveBound)
		defer stop()
		all, err := ask(ctx, control.Dial(path), t)
		if err != nil {
			return nil // a press of a key gets no error message
		}
		return slices.DeleteFunc(all, func(s suggestion) bool { return !safeWord.MatchString(s.word) })
	}
}

// members offers the names of those that fit.
func members(fits func(control.Member) bool) offer {
	return fromAgent(func(ctx context.Context, client *control.Client, _ *typed) (all []suggestion, err error) {
		known, err := client.Members(ctx)
		for _, m := range known {
			if fits(m) {
				all = append(all, suggestion{m.Name, fmt.Sprintf("%s, priority %d, %s", m.Addr, m.Priority, m.Status)})
			}
		}
		return all, err
	})
}

// The offers of the table of commands.
var (
	anyMember    = members(func(control.Member) bool { return true })
	otherMembers = members(func(m control.Member) bool { return !m.Self })
	successors   = members(func(m control.Member) bool {
		return !m.Self && m.Role == "voter" && m.Status == "alive" && !m.Draining && m.Maintenance == nil
	})
	jobNames = fromAgent(func(ctx context.Context, client *control.Client, _ *typed) (all []suggestion, err error) {
		jobs, err := client.Jobs(ctx, 0)
		for _, j := range jobs {
			all = append(all, suggestion{j.Name, j.Schedule + ", " + j.State})
		}
		return all, err
	})
	keyIDs = fromAgent(func(ctx context.Context, client *control.Client, _ *typed) (all []suggestion, err error) {
		keys, err := client.Keys(ctx)
		for _, id := range keys.Keys {
			all = append(all, suggestion{word: id})
		}
		return all, err
	})
	hookRuns = fromAgent(func(ctx context.Context, client *control.Client, _ *typed) (all []suggestion, err error) {
		runs, err := client.HookRuns(ctx)
		for _, r := range slices.Backward(runs) {
			all = append(all, suggestion{strconv.FormatUint(r.Seq, 10), r.Event})
		}
		return all, err
	})
	hookEvents = fixed(eventNames()...)
)

// eventNames are the events that hooks are for.
func eventNames() []string {
	return []string{string(hooks.BecomeLeader), string(hooks.LoseLeadership), string(hooks.LeaderChange), string(hooks.MemberChange)}
}

// commandPath offers the commands after those that are named already.
func commandPath(t *typed) (all []suggestion) {
	at := root()
	for _, word := range t.args {
		at, _ = find(at.subcommands, word) // nothing has no subcommands
	}
	for _, sub := range at.subcommands {
		all = append(all, suggestion{sub.name, sub.usage})
	}
	return all
}
