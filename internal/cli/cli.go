// Package cli is the command line: it turns arguments into calls of the agent,
// of its local API, or of the configuration, and their outcome into text and an
// exit code (docs/operating.md, exit codes). One file is one command.
//
// The parsing is urfave/cli's, whose only home this is. Its messages, its help
// and its exits are not: it stops parsing flags at the first argument and
// silently ignores the rest, prints a page for each slip of the finger, and
// knows one exit code.
package cli

import (
	"io"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/bully-agent/bully-agent/internal/config"
)

// program is what users type.
const program = "bully-agent"

// urfave would act on a flag of this name before our own wrapper sees it.
func init() { urfave.HelpFlag = nil }

// Main runs the command line args, args[0] being the program, and returns the
// process's exit code.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	nameProcess(args)
	if main := part(args); main != nil {
		return main() // started by the agent, and not for people: before all else, and on no page
	}
	con := newConsole(in, out, err)
	failure := newApp(con).Run(args)
	con.report(failure)
	return exitCode(failure)
}

// command is one command, as parsing and help both see it.
type command struct {
	name     string
	usage    string // one line, lower case, without a full stop
	args     string // what may follow the flags, for the help; "": nothing
	maxArgs  int
	offer    offer  // what completion offers for an argument
	operand  string // the flag that an argument was most likely meant for; "": none
	about    string // further paragraphs of the help
	examples []string
	options  []option
	action   func(*call) error // nil: it only has subcommands

	subcommands []command
}

// option is one flag. All values are text: the command parses them, so that the
// message for a wrong one is ours.
type option struct {
	name     string
	short    string
	value    string // placeholder of its value; "": a switch
	usage    string
	fallback string // the default, as text
	group    string // heading in the help; "": none
	many     bool   // may be given again
	optional bool   // the value may be left out: --name, --name=VALUE
	offer    offer  // what completion offers for the value
}

// call is one use of a command.
type call struct {
	*urfave.Context
	*console
	command  command
	path     string // "bully-agent config check"
	instance instance
}

func commands() []command {
	return withInstance([]command{
		runCommand, labCommand, simCommand,
		statusCommand, explainCommand, leaderCommand, isLeaderCommand, membersCommand, waitCommand, eventsCommand, historyCommand, topCommand,
		metricsCommand, doctorCommand, debugCommand(),
		stepDownCommand, maintenanceCommand, okToStopCommand, forgetCommand, reloadCommand, jobsCommand, hooksCommand, execCommand, holdCommand, vipCommand, fenceCommand, asCommand, importCommand,
		configCommand, keyCommand, idCommand, completionCommand(), versionCommand,
	})
}

// root is the program without a command.
func root() command {
	all := commands()
	return command{
		name:        program,
		usage:       "elect one leader on a LAN and run hooks there",
		subcommands: append(all, helpCommand(all)),
		options:     []option{{name: "version", short: "v", usage: "print the version"}, instanceOption},
		action: func(c *call) error {
			if c.Bool("version") {
				return versionCommand.action(c)
			}
			return c.print(c.command.help(c.path)) // who types the name alone asks what it is
		},
		examples: []string{
			program + " run",
			program + " status",
			program + " wait --for leader --timeout 10s",
			program + " help run",
		},
	}
}

func newApp(con *console) *urfave.App {
	top := root()
	app := urfave.NewApp()
	app.Name, app.Usage = top.name, top.usage
	app.Reader, app.Writer, app.ErrWriter = con.in, con.out, con.err
	app.HideHelp, app.HideHelpCommand, app.HideVersion = true, true, true
	app.DisableSliceFlagSeparator = true // config splits, and says where
	app.ExitErrHandler = func(*urfave.Context, error) {}
	app.Flags, app.Action, app.OnUsageError = top.flags(), top.run(con, top.name), top.onUsageError(top.name)
	for _, c := range top.subcommands {
		app.Commands = append(app.Commands, c.build(con, top.name))
	}
	return app
}

// build makes urfave's form of the command.
func (cmd command) build(con *console, parent string) *urfave.Command {
	path := parent + " " + cmd.name
	built := &urfave.Command{Name: cmd.name, Usage: cmd.usage, HideHelp: true, HideHelpCommand: true,
		Flags: cmd.flags(), Action: cmd.run(con, path), OnUsageError: cmd.onUsageError(path)}
	for _, sub := range cmd.subcommands {
		built.Subcommands = append(built.Subcommands, sub.build(con, path))
	}
	return built
}

func (cmd command) flags() []urfave.Flag {
	flags := []urfave.Flag{&urfave.BoolFlag{Name: "help", Aliases: []string{"h"}}}
	for _, o := range cmd.options {
		flags = append(flags, o.flag())
	}
	return flags
}

func (o option) flag() urfave.Flag {
	var aliases []string
	if o.short != "" {
		aliases = []string{o.short}
	}
	switch {
	case o.value == "":
		return &urfave.BoolFlag{Name: o.name, Aliases: aliases}
	case o.many:
		return &urfave.StringSliceFlag{Name: o.name, Aliases: aliases}
	case o.optional:
		return &urfave.GenericFlag{Name: o.name, Aliases: aliases, Value: new(optional)}
	}
	return &urfave.StringFlag{Name: o.name, Aliases: aliases}
}

// optional is the value of a flag that may be given without one.
type optional string

// Set takes the value; package flag says "true" where there is none.
func (o *optional) Set(value string) error {
	if value != "true" {
		*o = optional(value)
	}
	return nil
}

func (o *optional) String() string { return string(*o) }

// IsBoolFlag tells package flag that no value needs to follow.
func (o *optional) IsBoolFlag() bool { return true }

// run wraps the action in what every command does alike.
func (cmd command) run(con *console, path string) urfave.ActionFunc {
	return func(ctx *urfave.Context) error {
		c := &call{Context: ctx, console: con, command: cmd, path: path}
		if c.Bool("help") {
			return con.print(cmd.help(path))
		}
		if len(cmd.subcommands) > 0 && c.NArg() > 0 {
			return c.unknownCommand()
		}
		if c.NArg() > cmd.maxArgs {
			return c.surplus()
		}
		if cmd.action == nil {
			return c.noCommand()
		}
		var err error
		if c.instance, err = c.instanceOf(); err != nil {
			return err
		}
		return c.namingInstances(cmd.action(c))
	}
}

func (c *call) noCommand() error {
	return usage("see "+c.path+" --help", "a command is missing after %s: expected %s", c.path, oneOf(names(c.command.subcommands)))
}

func (c *call) unknownCommand() error {
	word, known := c.Args().First(), names(c.command.subcommands)
	if now, isGone := gone[c.path+" "+word]; isGone {
		return usage(now, "the command %s is gone", word)
	}
	hint := "see " + c.path + " --help"
	if near := nearest(word, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return usage(hint, "unknown command %s: expected %s", strconv.Quote(word), oneOf(known))
}

// surplus refuses what urfave would ignore, flags after an argument included.
func (c *call) surplus() error {
	first := c.Args().Get(c.command.maxArgs)
	for _, later := range c.Args().Slice()[c.command.maxArgs:] {
		if strings.HasPrefix(later, "-") && later != "-" && later != first {
			return usage("flags come before arguments", "unexpected argument %s before %s: %s", strconv.Quote(first), strconv.Quote(later), c.takes())
		}
	}
	if c.command.maxArgs > 0 && strings.HasPrefix(first, "-") && first != "-" {
		return usage("flags come before arguments", "unexpected argument %s after %s: %s", strconv.Quote(first),
			strconv.Quote(c.Args().Get(c.command.maxArgs-1)), c.takes())
	}
	if c.command.operand != "" && c.NArg() == 1 && !c.IsSet(c.command.operand) {
		return usage("write --"+c.command.operand+" "+first, "unexpected argument %s: %s", strconv.Quote(first), c.takes())
	}
	return usage("see "+c.path+" --help", "unexpected argument %s: %s", strconv.Quote(first), c.takes())
}

func (c *call) takes() string {
	if c.command.maxArgs == 0 {
		return c.path + " takes none"
	}
	return c.path + " takes " + c.command.args
}

func names(commands []command) []string {
	out := make([]string, len(commands))
	for i, c := range commands {
		out[i] = c.name
	}
	return out
}

// onUsageError says in one line what package flag found.
func (cmd command) onUsageError(path string) urfave.OnUsageErrorFunc {
	return func(_ *urfave.Context, err error, _ bool) error { return cmd.flagError(path, err) }
}

// flagError translates package flag's messages, which a test pins.
func (cmd command) flagError(path string, err error) error {
	help := "see " + path + " --help"
	message := err.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		if now, isGone := gone[path+" "+dashed(name)]; isGone {
			return usage(now, "the flag %s of %s is gone", dashed(name), path)
		}
		var known []string
		for _, o := range cmd.options {
			known = append(known, o.name)
		}
		if near := nearest(name, known); near != "" {
			help = "did you mean --" + near + "?"
		}
		return usage(help, "unknown flag %s for %s", config.Printable(dashed(name)), path)
	}
	if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		return usage(help, "%s needs a value", dashed(name))
	}
	if rest, ok := strings.CutPrefix(message, "invalid boolean value "); ok {
		value, name, _ := strings.Cut(rest, " for -")
		name, _, _ = strings.Cut(name, ":")
		return usage(help, "--%s is a switch: expected true or false, found %s", name, value)
	}
	if word, ok := strings.CutPrefix(message, "bad flag syntax: "); ok {
		return usage(help, "%s is not a flag", strconv.Quote(word))
	}
	return usage(help, "%s", config.Printable(message))
}

// dashed is a flag as people write it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// oneOf lists what is possible.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
