package config

import (
	"strings"
	"testing"
)

const (
	idAlpha = "fe1095c4-2ece-8f33-9e10-046f06a380f5"
	idBeta  = "bbd73440-951d-802d-8fc3-3707e507c0f2"
)

// loadHosts loads a file with that text.
func loadHosts(t *testing.T, text string, env map[string]string) (*Config, error) {
	t.Helper()
	return load(Source{Path: writeFile(t, text), Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}, alpha())
}

// However it is written, a host list is one and the same.
func TestHostsAsTheyAreWritten(t *testing.T) {
	want := ""
	for name, text := range map[string]string{
		"inline":         "[network]\nhosts = { beta = \"" + idBeta + "\", \"alpha.lan\" = \"" + idAlpha + "\" }\n",
		"a table":        "[network.hosts]\n\"alpha.lan\" = \"" + idAlpha + "\"\nbeta = \"" + strings.ToUpper(idBeta) + "\"\n",
		"with dots":      "[network]\nhosts.beta = \"" + idBeta + "\"\nhosts.\"alpha.lan\" = \"" + idAlpha + "\"\n",
		"in one line":    "network = 1\n",
		"between others": "[network]\nbind = \"127.0.0.1:7950\"\n[network.hosts]\nbeta = \"" + idBeta + "\"\n\"alpha.lan\" = \"" + idAlpha + "\"\n[node]\npriority = 3\n",
	} {
		env := map[string]string{}
		if name == "in one line" {
			text, env = "", map[string]string{"BULLY_HOSTS": "beta=" + idBeta + ", alpha.lan=" + idAlpha}
		}
		cfg, err := loadHosts(t, text, env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want == "" {
			want = cfg.Text(hostsKey)
		}
		if got := cfg.Text(hostsKey); got != want || got != "alpha.lan="+idAlpha+",beta="+idBeta {
			t.Errorf("%s: %s", name, got)
		}
		if at := cfg.Network.Hosts.String(); !strings.HasSuffix(at, ": network.hosts") || len(env) == 0 && !strings.Contains(at, ".toml:") {
			t.Errorf("%s: messages say that it stands at %q", name, at)
		}
		again, err := loadHosts(t, cfg.TOML(), nil)
		if err != nil || !again.Network.Hosts.Equal(cfg.Network.Hosts) {
			t.Errorf("%s: what is shown is read as %v, %v", name, again, err)
		}
	}
}

func TestBadHosts(t *testing.T) {
	table := func(lines ...string) string { return "[network.hosts]\n" + strings.Join(lines, "\n") + "\n" }
	alpha := `alpha = "` + idAlpha + `"`
	for text, want := range map[string]string{
		table(alpha, `beta = "`+idAlpha+`"`):                    `:3:8: network.hosts: one id under two names: alpha and beta both have ` + idAlpha,
		table(`alpha = "cc9c68df"`):                             `:2:9: network.hosts: "cc9c68df" of alpha: id is not a UUID`,
		table(`alpha = "fe1095c4-2ece-4f33-9e10-046f06a380f5"`): `of alpha: id is of no key of a host: expected a UUID of version 8`,
		table(`alpha = 7`):                                      `network.hosts: 7 is a number: expected the id of alpha`,
		table(`alpha.lan = "` + idAlpha + `"`):                  `a name with dots goes in quotes`,
		table(`"a b" = "` + idAlpha + `"`):                      `"a b" is not a name`,
		"[network]\nhosts = [\"a\"]\n":                          `expected a table of names and ids`,
		"[network]\nhosts = \"a\"\n":                            `expected a table of names and ids`,
		"[[network.hosts]]\nalpha = 1\n":                        `network.hosts: `,
		"[network.hosts.alpha]\nid = 1\n":                       `there is no such table`,
	} {
		_, err := loadHosts(t, text, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for list, want := range map[string]string{
		"alpha":                                 "expected NAME=ID",
		"alpha=" + idAlpha + ",alpha=" + idBeta: `"alpha" is there twice`,
	} {
		if _, err := loadHosts(t, "", map[string]string{"BULLY_HOSTS": list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}

// An empty list in a file is a slip: taken for none, it would let each host in that has the key. What is shown without a list can be
// read back, and an empty variable is none.
func TestAnEmptyListIsRefused(t *testing.T) {
	for _, text := range []string{"[network.hosts]\n", "[network]\nhosts = {}\n"} {
		if _, err := loadHosts(t, text, nil); err == nil || !strings.Contains(err.Error(), "network.hosts: it names no host: expected this host at least; hint: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	none, err := loadHosts(t, "", map[string]string{"BULLY_HOSTS": ""})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := loadHosts(t, none.TOML(), nil); err != nil || !again.Network.Hosts.IsNone() {
		t.Errorf("without a list it shows what is read as %v", err)
	}
}

// A key that is not there is taken for one of its own table before it is for another's.
func TestTheNearestKey(t *testing.T) {
	for path, want := range map[string]string{"http.key": "key_file", "http.cert": "cert_file", "http.join": "network.join"} {
		if got := nearestKey(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
