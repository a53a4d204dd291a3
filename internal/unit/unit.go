// Package unit reads what systemd will do with a service of ours: as whom it runs, and what it
// keeps from the commands that it starts. Who asks is root, whom nothing is kept from.
package unit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Unit is the [Service] section of a unit with its drop-ins. Nil is no unit.
type Unit struct {
	Name string
	set  map[string][]string // by key, in their order; an empty one empties the list before it
}

// directories are where units are, the first wins (systemd.unit(5)).
var directories = []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// NameOf is the unit of an instance; "" is the agent without a name.
func NameOf(instance string) string {
	if instance == "" {
		return "bully-agent.service"
	}
	return "bully-agent@" + instance + ".service"
}

// Find reads a unit of the host whose files are below root; nil: it has none.
func Find(root, name string) *Unit {
	names := []string{name}
	if template, _, is := strings.Cut(name, "@"); is {
		names = append(names, template+"@.service")
	}
	u := &Unit{Name: name, set: map[string][]string{}}
	if !u.read(first(root, names)) {
		return nil
	}
	dropIns := map[string]string{} // path by name: the same name in an earlier directory wins
	for _, dir := range directories {
		for _, file := range names {
			found, _ := filepath.Glob(filepath.Join(root, dir, file+".d", "*.conf"))
			for _, path := range found {
				if base := filepath.Base(path); dropIns[base] == "" {
					dropIns[base] = path
				}
			}
		}
	}
	for _, base := range sorted(dropIns) {
		u.read(dropIns[base])
	}
	return u
}

func sorted(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// first is the file that counts; "": there is none. One that masks the unit, empty or a link to /dev/null, hides those of
// later directories and of later names.
func first(root string, names []string) string {
	for _, file := range names {
		for _, dir := range directories {
			path := filepath.Join(root, dir, file)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// read adds what a file sets, and reports whether there is anything in it.
func (u *Unit) read(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return false
	}
	u.parse(string(text))
	return true
}

func (u *Unit) parse(text string) {
	text, section := strings.ReplaceAll(text, "\\\n", " "), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, isSet := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = line
		case section == "[Service]" && isSet:
			key = strings.TrimSpace(key)
			u.set[key] = append(u.set[key], strings.TrimSpace(value))
		}
	}
}

// value is what a setting that is no list has in the end.
func (u *Unit) value(key string) string {
	all := u.set[key]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// words are those of a list.
func (u *Unit) words(key string) (all []string) {
	for _, line := range u.set[key] {
		if line == "" {
			all = nil
		}
		all = append(all, strings.Fields(line)...)
	}
	return all
}

// User is as whom the unit's commands run: hooks, checks and jobs.
func (u *Unit) User() string {
	if u == nil || u.value("User") == "" {
		return "root"
	}
	return u.value("User")
}

// KeyUser is whose the key must be, for a reload to read it: the unit's user, or the one that the
// process becomes which reads the network.
func (u *Unit) KeyUser() string {
	if u == nil {
		return "root"
	}
	for _, variable := range u.words("Environment") {
		if name, is := strings.CutPrefix(strings.Trim(variable, `"`), "BULLY_USER="); is {
			return name
		}
	}
	return u.User()
}

func isYes(value string) bool {
	return slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(value))
}
