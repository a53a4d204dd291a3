package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// unpack gives the files of an archive by their names.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		head, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(head.Name)] = string(text)
	}
}

// forms are all ways in which a key may have been written.
func forms(k key.Key) map[string]string {
	b, hexed := k.Secret[:], hex.EncodeToString(k.Secret[:])
	return map[string]string{"file": strings.TrimSpace(string(key.Ring{k}.Format())), "hex": hexed, "HEX": strings.ToUpper(hexed),
		"base64": base64.StdEncoding.EncodeToString(b), "base64 raw": base64.RawStdEncoding.EncodeToString(b),
		"base64url": base64.URLEncoding.EncodeToString(b), "base64url raw": base64.RawURLEncoding.EncodeToString(b)}
}

func nothingOf(t *testing.T, k key.Key, where, text string) {
	t.Helper()
	for form, secret := range forms(k) {
		words := strings.Fields(secret)
		if strings.Contains(text, words[len(words)-1]) {
			t.Errorf("%s has the key in %s", where, form)
		}
	}
	if bytes.Contains([]byte(text), k.Secret[:]) {
		t.Errorf("%s has the key's bytes", where)
	}
}

// No key material gets into an archive: not in the log, where every form of two keys stands, one of them unknown here; not in
// the configuration's commands; nor by what the agent says.
func TestDebugHoldsNoKey(t *testing.T) {
	p := newPuppet(t)
	ours, foreign := key.Generate(time.Now(), nil), key.Generate(time.Now(), nil)
	dir := t.TempDir()
	file, log := filepath.Join(dir, "key"), filepath.Join(dir, "log")
	if err := os.WriteFile(file, key.Ring{ours}.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	said := "2026-11-23T02:00:00 an honest line of /usr/lib/bully-agent/a-directory/with-a-long-name/in-it and 236769eb-55ed-466a-b982-566e2ed806af\n"
	for _, k := range []key.Key{ours, foreign} {
		for form, secret := range forms(k) {
			said += fmt.Sprintf("%s: %s\nin quotes: %q, after = KEY=%s\n", form, secret, secret, secret)
		}
	}
	if err := os.WriteFile(log, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	p.status.Notes = []string{"somebody pasted " + forms(ours)["base64"], forms(foreign)["file"]}
	p.events[0].Text = forms(ours)["hex"]
	p.members[1].Addr = string(forms(foreign)["base64url raw"])
	p.serve(t)
	t.Setenv("BULLY_KEY", file)
	t.Setenv("BULLY_ON_BECOME_LEADER", "mysql -psecret-word")
	archive := filepath.Join(dir, "fault.tar.gz")
	code, out, errs := commandLine("debug", "--socket", p.socket, "--log", log, "-o", archive)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	files := unpack(t, archive)
	for name, text := range files {
		nothingOf(t, ours, name, text)
		nothingOf(t, foreign, name, text)
		if strings.Contains(text, "secret-word") {
			t.Errorf("%s has a command", name)
		}
		if !strings.Contains(out, name) && name != "CONTENTS.txt" || !strings.Contains(files["CONTENTS.txt"], name) && name != "CONTENTS.txt" {
			t.Errorf("%s is in it, and is not said to be", name)
		}
	}
	for name, words := range map[string]string{"status.json": "home-lab", "members.json": "gamma", "events.json": "something of beta",
		"agent.toml": "# left out: 19 bytes for the shell", "version.json": "version", "log.txt": "an honest line of /usr/lib/bully-agent/a-directory/with-a-long-name/in-it and 236769eb-55ed-466a-b982-566e2ed806af"} {
		if !strings.Contains(files[name], words) {
			t.Errorf("%s lacks %q:\n%.300s", name, words, files[name])
		}
	}
	if strings.Count(files["log.txt"], leftOut) < 28 {
		t.Errorf("the log lost more, or less, than the keys:\n%s", files["log.txt"])
	}
	if code, _, errs = commandLine("debug", "--socket", p.socket, "-o", archive); code != exitNo || !strings.Contains(errs, "exists") {
		t.Errorf("over a file that is there: exit %d, %s", code, errs)
	}
}

// Without an agent there is what can be had, and what is missing is said.
func TestDebugWithoutAnAgent(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "fault.tar.gz")
	code, out, errs := commandLine("debug", "--json", "--socket", filepath.Join(dir, "none"), "--log", filepath.Join(dir, "no.log"), "-o", archive)
	var said struct {
		File  string
		Items []item
	}
	if code != 0 || errs != "" || json.Unmarshal([]byte(out), &said) != nil || said.File != archive {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	problems := map[string]string{}
	for _, it := range said.Items {
		problems[it.Name] = it.Problem
	}
	if !strings.Contains(problems["status.json"], "not reachable") || !strings.Contains(problems["log.txt"], "no such file") || problems["version.json"] != "" {
		t.Errorf("problems: %v", problems)
	}
	files := unpack(t, archive)
	if !strings.Contains(files["CONTENTS.txt"], "missing: agent not reachable") || files["agent.toml"] == "" || files["status.json"] != "" {
		t.Errorf("%v", files)
	}
}
