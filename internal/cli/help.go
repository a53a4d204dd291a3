package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// helpWidth is the width of the help: a terminal's classic one, so that it can
// be read anywhere, and the same everywhere, so that it can be tested.
const helpWidth = 80

// helpCommand is "help [COMMAND...]", for those who type that.
func helpCommand(all []command) command {
	return command{
		name: "help", usage: "explain a command", args: "[COMMAND]", maxArgs: 2, offer: commandPath,
		examples: []string{program + " help run"},
		action: func(c *call) error {
			cmd, path := root(), program
			for _, word := range c.Args().Slice() {
				next, ok := find(cmd.subcommands, word)
				if !ok {
					hint := "see " + path + " --help"
					if near := nearest(word, names(all)); near != "" {
						hint = "did you mean " + near + "?"
					}
					return usage(hint, "no help for %s: there is no such command", strconv.Quote(word))
				}
				cmd, path = next, path+" "+word
			}
			return c.print(cmd.help(path))
		},
	}
}

func find(commands []command, name string) (command, bool) {
	for _, c := range commands {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// help is the command's page.
func (cmd command) help(path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nUsage: %s%s\n", path, cmd.usage, path, cmd.syntax())
	if cmd.about != "" {
		for paragraph := range strings.SplitSeq(strings.TrimSpace(cmd.about), "\n\n") {
			b.WriteString("\n" + wrapped(strings.Join(strings.Fields(paragraph), " "), 0))
		}
	}
	if len(cmd.examples) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range cmd.examples {
			b.WriteString("  " + e + "\n")
		}
	}
	if len(cmd.subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.subcommands {
			b.WriteString(entry(sub.name, sub.usage, 16))
		}
	}
	cmd.writeOptions(&b)
	return b.String()
}

func (cmd command) syntax() string {
	syntax := ""
	switch {
	case len(cmd.subcommands) > 0 && cmd.action != nil && cmd.name != program: // who types the program's name alone wants help
		syntax = " [COMMAND]"
	case len(cmd.subcommands) > 0:
		syntax = " COMMAND"
	}
	syntax += " [flags]"
	if cmd.args != "" {
		syntax += " " + cmd.args
	}
	return syntax
}

// writeOptions lists the flags by group, those without one first.
func (cmd command) writeOptions(b *strings.Builder) {
	const column = 31
	help := option{name: "help", short: "h", usage: "show this"}
	grouped := max(slices.IndexFunc(cmd.options, func(o option) bool { return o.group != "" }), 0)
	if grouped == 0 {
		grouped = len(cmd.options)
	}
	group := ""
	b.WriteString("\nFlags:\n")
	for _, o := range slices.Insert(slices.Clone(cmd.options), grouped, help) {
		if o.group != group {
			group = o.group
			fmt.Fprintf(b, "\n%s:\n", group)
		}
		text := o.usage
		if o.fallback != "" {
			text += " (default: " + o.fallback + ")"
		}
		b.WriteString(entry(o.label(), text, column))
	}
}

func (o option) label() string {
	label := "--" + o.name
	if o.short != "" {
		label = "-" + o.short + ", " + label
	}
	switch {
	case o.optional:
		label += "[=" + o.value + "]"
	case o.value != "":
		label += " " + o.value
	}
	return label
}

// entry is one line of a list: a label, and its text from column on.
func entry(label, text string, column int) string {
	head := fmt.Sprintf("  %-*s", column-2, label)
	body := wrapped(text, column)
	if utf8.RuneCountInString(head) > column {
		return head + "\n" + body
	}
	return head + strings.TrimPrefix(body, strings.Repeat(" ", column))
}

// wrapped breaks text into lines that all begin at column.
func wrapped(text string, column int) string {
	indent := strings.Repeat(" ", column)
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > column && len(line)+1+len(word) > helpWidth {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > column {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
