package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What another agent of this host has by its file is named with that file; what is its own, and what is no agent's, is not.
func TestBeside(t *testing.T) {
	const tail = ": give one of the two another, or only one of them can run"
	for name, tt := range map[string]struct {
		mine, its string
		want      []string
	}{
		"a port of its own":     {"[network]\nbind = \"0.0.0.0:7951\"", "[network]\nbind = \"0.0.0.0:7952\"", nil},
		"the same port":         {"[network]\nbind = \"0.0.0.0:7951\"", "[network]\nbind = \"0.0.0.0:7951\"", []string{"DB has this port as well, 7951 (bind)"}},
		"both by default":       {"cluster = \"web\"", "cluster = \"db\"", []string{"DB has this port as well, 7950 (bind)"}},
		"on one of all":         {"[network]\nbind = \"10.0.0.1:7951\"", "[network]\nbind = \"[::]:7951\"", []string{"DB has this port as well, 7951 (bind)"}},
		"of all of one family":  {"[network]\nbind = \"0.0.0.0:7951\"", "[network]\nbind = \"[::1]:7951\"", nil},
		"all, and all of one":   {"[network]\nbind = \"0.0.0.0:7951\"", "[network]\nbind = \"[::]:7951\"", []string{"DB has this port as well, 7951 (bind)"}},
		"on another address":    {"[network]\nbind = \"10.0.0.1:7951\"", "[network]\nbind = \"127.0.0.1:7951\"", nil},
		"what sets nothing":     {"cluster = \"web\"", "# cluster = \"db\"", nil},
		"what cannot be loaded": {"cluster = \"web\"", "clutser = \"db\"", nil},
		"readers' port":         {"[http]\nlisten = \"10.0.0.1:80\"", "[network]\nbind = \"0.0.0.0:7952\"\n[http]\nlisten = \"0.0.0.0:80\"", []string{"DB has this port as well, 80 (listen under [http])"}},
		"readers' and members'": {"[http]\nlisten = \"10.0.0.1:7952\"", "[network]\nbind = \"0.0.0.0:7952\"", []string{"DB has this port as well, 7952 (bind there, listen under [http] here)"}},
		"members' and readers'": {"[network]\nbind = \"0.0.0.0:7951\"", "[http]\nlisten = \"127.0.0.1:7951\"", []string{"DB has this port as well, 7951 (listen under [http] there, bind here)"}},
		"places": {"[network]\nbind = \"0.0.0.0:7951\"\n[node]\nstate_dir = \"/var/lib/bully-agent-db\"\n[control]\nsocket = \"/run/bully-agent-db/agent.sock\"", "cluster = \"db\"",
			[]string{"DB has this state directory as well, /var/lib/bully-agent-db (state_dir)", "DB has this socket as well, /run/bully-agent-db/agent.sock (socket)"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"web": filepath.Join(dir, "web.toml"), "db": filepath.Join(dir, "db.toml"), "gone": filepath.Join(dir, "gone.toml")}
			for instance, text := range map[string]string{"web": tt.mine, "db": tt.its} {
				if err := os.WriteFile(files[instance], []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, src := range []Source{{Path: files["web"], Instance: "web"}, {Path: files["web"]}} { // the second: by its file alone
				c := mustLoad(t, src, alpha())
				var got []string
				for _, note := range c.beside(src.Path, files, alpha()) {
					got = append(got, strings.TrimSuffix(strings.Replace(note, files["db"], "DB", 1), tail))
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
					t.Errorf("as instance %q: got %q, want %q", src.Instance, got, tt.want)
				}
			}
		})
	}
}
