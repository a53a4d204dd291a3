package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown is one setting as it is in force, and why.
type Shown struct {
	Key   string `json:"setting"` // "election.lease"; of a job below its table: "command"
	Value any    `json:"value"`   // a string, a whole number, a bool, strings, or names with strings
	From  string `json:"from"`    // "agent.toml:7", "BULLY_LEASE", "--lease", "profile lan" or "default"

	// Implied says that it is no more than what another setting or the host says, so that a file which repeated it would
	// say something else.
	Implied bool `json:"implied,omitempty"`
}

// ShownItem is one [[job]], [[check]] or [[resource]]: what is written of it, and of a job the time zone.
type ShownItem struct {
	From string  `json:"from"`
	Keys []Shown `json:"keys"`
}

// Shown lists all settings in the table's order.
func (c *Config) Shown() []Shown {
	all := make([]Shown, 0, len(settings))
	for _, s := range settings {
		shown := Shown{Key: s.Key, Value: plain(s.field.get(c)), From: c.places[s.Key].onLine()}
		if c.places[s.Key].origin == fromDefault {
			shown.From, shown.Implied = c.derivation(s.Key)
		}
		all = append(all, shown)
	}
	return all
}

// shownItem is what is written of a table; upTo is a configuration of which that is the last one of its kind.
func shownItem(i *item, keys []itemKey, upTo *Config) ShownItem {
	shown := ShownItem{From: i.header.onLine()}
	for _, k := range keys {
		if at, written := i.places[k.name]; written {
			shown.Keys = append(shown.Keys, Shown{Key: k.name, Value: plain(k.field.get(upTo)), From: at.onLine()})
		}
	}
	return shown
}

// ShownJobs lists the jobs in the file's order.
func (c *Config) ShownJobs() []ShownItem {
	all := make([]ShownItem, len(c.Jobs))
	for i := range c.Jobs {
		upTo := *c
		upTo.Jobs = c.Jobs[:i+1]
		all[i] = shownItem(&c.Jobs[i].item, jobKeys, &upTo)
		if !c.Jobs[i].has("timezone") {
			all[i].Keys = append(all[i].Keys, Shown{Key: "timezone", Value: c.Timezone, From: "timezone above"})
		}
	}
	return all
}

// ShownChecks lists the checks likewise.
func (c *Config) ShownChecks() []ShownItem {
	all := make([]ShownItem, len(c.Checks))
	for i := range c.Checks {
		upTo := *c
		upTo.Checks = c.Checks[:i+1]
		all[i] = shownItem(&c.Checks[i].item, checkKeys, &upTo)
	}
	return all
}

// ShownResources lists the resources likewise.
func (c *Config) ShownResources() []ShownItem {
	all := make([]ShownItem, len(c.Resources))
	for i := range c.Resources {
		upTo := *c
		upTo.Resources = c.Resources[:i+1]
		all[i] = shownItem(&c.Resources[i].item, resourceKeys, &upTo)
	}
	return all
}

// derivation says where a value comes from that nobody has given.
func (c *Config) derivation(key string) (from string, isImplied bool) {
	switch key {
	case "node.name":
		return "the host's name", false
	case "node.role":
		if c.places["node.voter"].origin != fromDefault {
			return "voter", false
		}
	case "node.voter":
		return "role", true // a witness votes, and is no voter in the sense of this setting
	case "network.advertise":
		return cmp.Or(c.Network.Interface, "bind"), false
	case "network.key":
		return "default", true // one that is named must be there
	case hostsKey:
		return "default", true // a list that is written names a host
	case "node.state_dir", "control.socket":
		if c.Instance != "" {
			return "instance " + c.Instance, false
		}
	case "election.heartbeat", "election.lease":
		return "profile " + c.Network.Profile, false
	case "election.stop_budget":
		return "a quarter of lease", false
	}
	return "default", false
}

// onLine is the place without the column.
func (p place) onLine() string {
	if p.line > 0 {
		return p.name + ":" + strconv.Itoa(p.line)
	}
	return p.String()
}

// plain is a field's value without the types of this package.
func plain(v any) any {
	switch v := v.(type) {
	case Command:
		if len(v.Argv) > 0 {
			return v.Argv
		}
		return v.Shell
	case []string:
		return append([]string{}, v...)
	case hostTable:
		table := make(map[string]string, len(v))
		for _, h := range v {
			table[h.Name] = h.ID.String()
		}
		return table
	}
	return v
}

// TOML is the configuration as a file, with where each value comes from. Who loads it gets the same.
func (c *Config) TOML() string {
	var b strings.Builder
	table := ""
	for _, s := range c.Shown() {
		in, name, found := strings.Cut(s.Key, ".")
		if !found {
			in, name = "", s.Key
		}
		if in != table {
			table = in
			fmt.Fprintf(&b, "\n[%s]\n", table)
		}
		b.WriteString(s.line(name))
	}
	writeItems(&b, jobName, c.ShownJobs())
	writeItems(&b, checkName, c.ShownChecks())
	writeItems(&b, resourceName, c.ShownResources())
	return b.String()
}

func writeItems(b *strings.Builder, array string, items []ShownItem) {
	for _, i := range items {
		fmt.Fprintf(b, "\n[[%s]]  # %s\n", array, Printable(i.From))
		for _, s := range i.Keys {
			b.WriteString(s.line(s.Key))
		}
	}
}

// line is the setting as a line of a file. What says more than was said, or cannot be said there, is a comment.
func (s Shown) line(name string) string {
	value, isText := tomlValue(s.Value)
	from, off := s.From, ""
	if !isText {
		from += ", not UTF-8: no file can say it"
	}
	if s.Implied || !isText {
		off = "# "
	}
	return fmt.Sprintf("%s%s = %s  # %s\n", off, name, value, Printable(from))
}

// tomlValue writes a value as TOML; isText is false for one that TOML has no way to write.
func tomlValue(v any) (text string, isText bool) {
	switch v := v.(type) {
	case string:
		return tomlString(v), utf8.ValidString(v)
	case []string:
		words, isText := make([]string, len(v)), true
		for i, word := range v {
			words[i] = tomlString(word)
			isText = isText && utf8.ValidString(word)
		}
		return "[" + strings.Join(words, ", ") + "]", isText
	case map[string]string:
		var lines []string
		for _, name := range sortedKeys(v) {
			lines = append(lines, tomlKey(name)+" = "+tomlString(v[name]))
		}
		if len(lines) == 0 {
			return "{}", true
		}
		return "{ " + strings.Join(lines, ", ") + " }", true
	}
	return fmt.Sprint(v), true
}

// tomlKey is a key, in quotes where it must be.
func tomlKey(s string) string {
	if strings.Trim(s, bareKey) == "" && s != "" {
		return s
	}
	return tomlString(s)
}

// tomlString is a basic string: \ and a letter for the few that have one, \u or \U for whatever would not be seen.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch short, isShort := tomlEscapes[r]; {
		case isShort:
			b.WriteString(short)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var tomlEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\t': `\t`, '\r': `\r`}

// WithoutCommands is a copy that tells how long commands are, and not what they are: people write passwords into them.
func (c *Config) WithoutCommands() *Config {
	told := *c
	told.Jobs = slices.Clone(c.Jobs)
	for i := range told.Jobs {
		told.Jobs[i].Command = leftOut(told.Jobs[i].Command)
	}
	told.Resources = slices.Clone(c.Resources)
	for i := range told.Resources {
		told.Resources[i].Command = leftOut(told.Resources[i].Command)
	}
	h := &told.Hooks
	for _, command := range []*Command{&h.OnBecomeLeader, &h.OnLoseLeadership, &h.OnLeaderChange, &h.OnMemberChange} {
		*command = leftOut(*command)
	}
	return &told
}

func leftOut(c Command) Command {
	switch {
	case c.IsZero():
		return c
	case len(c.Argv) > 0:
		return Command{Shell: fmt.Sprintf("# left out: an array of %d", len(c.Argv))}
	}
	return Command{Shell: fmt.Sprintf("# left out: %d bytes for the shell", len(c.Shell))}
}
