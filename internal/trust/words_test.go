package trust

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
)

// What a shell line runs is found wherever a command may stand; what is only mentioned
// may belong to anybody.
func TestCheckWords(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root asks who else may write")
	}
	d := newTree(t)
	d.dir("open", 0o777)
	d.file("open/w", 0o755) // replaceable by anybody
	d.file("good", 0o755)
	d.dir("sub", 0o755)
	d.own("sub", 1000, 1000)
	d.must(os.WriteFile(d.at("script"), []byte("#! "+d.at("open/w")+" -x\n"), 0o700))
	d.must(os.WriteFile(d.at("viaenv"), []byte("#!/usr/bin/env "+d.at("open/w")+"\n"), 0o700))
	for _, tt := range []struct {
		line    string
		refused bool
	}{
		{"W", true},
		{"exec W", true},
		{"A=1 W", true},
		{"A=1 B='x y' exec W --flag", true},
		{"cd /; W", true},
		{"/bin/sh W", true},
		{"sh -eu W x", true},
		{"sh -c 'exec W'", true},
		{"bash -ec \"A=1; W\"", true},
		{". W", true},
		{"python3 -u W", true},
		{"exec /usr/bin/env A=1 W", true},
		{"timeout -k 1 5 W", true},
		{"nice -n 5 sh W", true},
		{"bully-agent as keepalived --name VI_1 -- W", true},
		{"G; /usr/bin/bully-agent exec --wait 5s -- W", true},
		{"true && W", true},
		{"true || W", true},
		{"true & W", true},
		{"if true; then W; fi", true},
		{"! W", true},
		{"(W)", true},
		{"{ W; }", true},
		{"f() { W; }; f", true},
		{"x=$(W)", true},
		{"echo `W`", true},
		{"a=$(b (c) $(d) e); W", true},
		{"echo x $(y `W` z)", true},
		{"case $BULLY_EVENT in become*) W;; esac", true},
		{"# comment\nW", true},
		{"true \\\n && W", true},
		{"2>/dev/null W", true},
		{"echo x >/dev/null; 'W'", true},
		{"G; D/script", true},
		{"G; exec D/viaenv", true},
		{"D/script", true},

		{"G", false},
		{"exec G", false},
		{"cat W", false},
		{"test -x W && G", false},
		{"echo x > W; G", false},
		{"G <W 2>W", false},
		{"echo ';' W", false},
		{"echo '& W' # ; W", false},
		{"echo \"; W\"", false},
		{"echo \\; W", false},
		{"$X W", false},
		{"sh $X W", false},
		{"exec env -C D/sub G", false},
		{"sudo -u app W", false},
		{"sh D/nothing/here", false},
		{"mount D/sub; D/sub2/later", false},
		{"touch D/sub/leader", false},
		{"chown $(id -u) W", false},
		{"chown `id -u` W; G", false},
		{"cp $(cat x)W y", false},
		{"cat <<E\nW\nE\n", false}, // more than that is not said of what follows
	} {
		line := strings.NewReplacer("W", d.at("open/w"), "G", d.at("good"), "D/", d.root+"/").Replace(tt.line)
		err := check(hooks.Command{Shell: line}, true)
		if tt.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "open: writable by everyone") {
			t.Errorf("%s: err = %v, want it refused: %v", tt.line, err, tt.refused)
		}
		if err := check(hooks.Command{Shell: line}, false); err != nil {
			t.Errorf("%s: not root: %v", tt.line, err)
		}
	}
	for _, argv := range [][]string{{"/bin/sh", "-c", "true; " + d.at("open/w")}, {"/bin/sh", d.at("open/w")}, {"/usr/bin/env", d.at("open/w")}, {d.at("script")}} {
		if err := check(hooks.Command{Argv: argv}, true); err == nil {
			t.Errorf("%q passes", argv)
		}
	}
	if err := check(hooks.Command{Argv: []string{"/bin/echo", ";", d.at("open/w")}}, true); err != nil {
		t.Errorf("an argument of echo: %v", err)
	}
}

// A word is what a shell takes for one.
func TestSimpleCommands(t *testing.T) {
	for line, want := range map[string][]string{
		`a 'b c' "d;e"`:      {"a|b c|d;e"},
		`a\ b c;d`:           {"a b|c", "d"},
		"a\\\nb":             {"ab"},
		`"a"'b'c`:            {"abc"},
		`a ''`:               {"a|"},
		`a "\"b" c`:          {`a|"b|c`},
		"a 2>&1 b >x&&c":     {"a|b", "c"},
		"a>x b":              {"a|b"},
		"a 22>x":             {"a"},
		"a <<E\nb":           {"a"},
		"a#b #c\nd":          {"a#b", "d"},
		"ü 'ß":               {"ü|ß"},
		`a "b`:               {"a|b"},
		`a \`:                {"a"},
		"":                   nil,
		" ;; &&|| ( ) \n\t ": nil,
	} {
		var got []string
		for _, command := range simpleCommands(line) {
			var words []string
			for _, w := range command {
				words = append(words, w.text)
			}
			got = append(got, strings.Join(words, "|"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}

// Whatever stands in a line, the splitter ends and loses nothing of plain words.
func FuzzSimpleCommands(f *testing.F) {
	f.Add(`a 'b' "c$(d)" <<E; e >f 2>&1 # g`)
	f.Fuzz(func(t *testing.T, line string) {
		total := 0
		for _, command := range simpleCommands(line) {
			if len(command) == 0 {
				t.Error("a command without a word")
			}
			for _, w := range command {
				total += len(w.text)
			}
		}
		if total > len(line) {
			t.Errorf("%q became longer", line)
		}
	})
}

// What a hook gives a program is found in its words and in its shell lines.
func TestArgumentsOfACommand(t *testing.T) {
	for _, tt := range []struct {
		command hooks.Command
		want    string
	}{
		{hooks.Command{Argv: []string{"/usr/bin/bully-agent", "vip", "add", "192.0.2.50/32", "eth0"}}, "[[192.0.2.50/32 eth0]]"},
		{hooks.Command{Shell: "bully-agent vip add 192.0.2.50/32 eth0 || exit 75"}, "[[192.0.2.50/32 eth0]]"},
		{hooks.Command{Shell: `ip=$(hostname); bully-agent vip add "$ip" 192.0.2.50/32 eth0; exec bully-agent vip add 192.0.2.51/32 'eth1'`}, "[[192.0.2.50/32 eth0] [192.0.2.51/32 eth1]]"},
		{hooks.Command{Shell: "bully-agent vip del 192.0.2.50/32 eth0; echo vip add"}, "[[]]"}, // it may be a program that does so
		{hooks.Command{Shell: "vip add 192.0.2.50/32"}, "[]"},
		{hooks.Command{}, "[]"},
	} {
		if got := fmt.Sprint(Arguments(tt.command, "vip", "add")); got != tt.want {
			t.Errorf("%v: %s, expected %s", tt.command, got, tt.want)
		}
	}
}
