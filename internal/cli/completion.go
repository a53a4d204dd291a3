package cli

import (
	_ "embed"
	"math"
	"strings"
)

// The shells' scripts hand the words of the command line to "completion next", and show what it answers.
var (
	//go:embed completion/bully-agent.bash
	bashScript string
	//go:embed completion/bully-agent.zsh
	zshScript string
	//go:embed completion/bully-agent.fish
	fishScript string
)

// completionCommand is a function: its last subcommand needs the table that this is in.
func completionCommand() command {
	return command{
		name: "completion", usage: "have a shell complete command lines of this program",
		subcommands: []command{
			shellScript("bash", "/usr/share/bash-completion/completions/"+program, bashScript),
			shellScript("zsh", "/usr/local/share/zsh/site-functions/_"+program, zshScript),
			shellScript("fish", "/usr/share/fish/vendor_completions.d/"+program+".fish", fishScript),
			{
				name: "next", usage: "print what may come next, for the scripts", args: "-- WORD...", maxArgs: math.MaxInt,
				offer: fixed(),
				about: `Takes the words after ` + program + `, the last as far as it is typed, perhaps empty. Prints a line for each word that may
					stand there: the word, and after a tabulator what it is. Or one line alone, :files, :directories or :command, for what
					the shell knows better. The running agent gives the names of members and jobs; it has 300 ms
					for its answer.`,
				examples: []string{program + ` completion next -- step-down --to ""`},
				action:   completeNext,
			},
		},
	}
}

// shellScript prints one script. place is where a package puts it.
func shellScript(shell, place, script string) command {
	return command{
		name: shell, usage: "print the script for " + shell,
		about:    "The packages bring it along. By hand its place is " + place + ".",
		examples: []string{program + " completion " + shell},
		action:   func(c *call) error { return c.printRaw(script) },
	}
}

func completeNext(c *call) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		words = []string{""}
	}
	t := understand(words)
	prefix := strings.TrimSuffix(words[len(words)-1], t.last) // --flag=, which the shell wants back
	var b strings.Builder
	for _, s := range t.suggestions() {
		if strings.HasPrefix(s.word, ":") {
			return c.print(s.word + "\n")
		}
		b.WriteString(prefix + s.word)
		if s.about != "" {
			b.WriteString("\t" + strings.Join(strings.Fields(s.about), " "))
		}
		b.WriteString("\n")
	}
	return c.print(b.String())
}
