package cli

import (
	"os"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"
)

// simCommandLine runs one subcommand of sim as if it were the program.
func simCommandLine(cmd command, args ...string) (code int, out, errs string) {
	var o, e strings.Builder
	con := newConsole(strings.NewReader(""), &o, &e)
	app := &urfave.App{Name: program, HideHelp: true, HideHelpCommand: true, HideVersion: true, Writer: &o, ErrWriter: &e,
		DisableSliceFlagSeparator: true, ExitErrHandler: func(*urfave.Context, error) {},
		Commands: []*urfave.Command{cmd.build(con, program+" sim")}}
	err := app.Run(append([]string{program, cmd.name}, args...))
	con.report(err)
	return exitCode(err), o.String(), e.String()
}

func TestSimTables(t *testing.T) {
	for _, test := range []struct{ args, row string }{
		{"", "  Bully             *24   24   15    *99   99   55   *399  399  210\n"},
		{"--n 10", "  Bully             *99   99   55\n"},
		{"--n 20,5,5", "  Bully             *24   24   15   *399  399  210\n"},
		{"--n=7,3", "  Bully              *8    8    6    *48   48   28\n"},
	} {
		code, out, errs := simCommandLine(simTablesCommand(), strings.Fields(test.args)...)
		if code != 0 || errs != "" || !strings.Contains(out, test.row) {
			t.Errorf("sim tables %s: exit code %d, %s%s, want the line %q", test.args, code, errs, out, test.row)
		}
	}
}

func TestSimTablesRefusesOddSizes(t *testing.T) {
	for _, list := range []string{"2", "1001", "5,", "five", "5;10", "-5", "99999999999999999999"} {
		code, out, errs := simCommandLine(simTablesCommand(), "--n", list)
		if code != exitUsage || out != "" || !strings.Contains(errs, "expected numbers from 3 to 1000 with commas between") {
			t.Errorf("sim tables --n %s: exit code %d, %q, %q", list, code, out, errs)
		}
	}
}

func TestSimChart(t *testing.T) {
	code, out, errs := simCommandLine(simChartCommand())
	if code != 0 || errs != "" || !strings.HasPrefix(out, "<svg ") || !strings.HasSuffix(out, "</svg>\n") {
		t.Fatalf("exit code %d, %s\n%.200s", code, errs, out)
	}
	for _, want := range []string{"Classic, worst case: 999,000 messages, 1,000 nodes", "Classic, best case: 4 messages, 5 nodes"} {
		if !strings.Contains(out, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if shown, err := os.ReadFile("../../docs/messages.svg"); err != nil || string(shown) != out {
		t.Errorf("docs/messages.svg is not what sim chart prints: make pictures (%v)", err)
	}
}
