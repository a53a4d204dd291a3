package config

import (
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/hooks"
)

// loader turns one Source into one Config: later sources overwrite earlier ones, and what is wrong is collected rather
// than returned, so that one run shows everything there is to mend. It is used once.
type loader struct {
	src    Source
	host   host
	config *Config

	// What derive needs beside the Config's own fields: addresses that lack the port of network.bind.
	advertise seed
	seeds     []seed

	problems []*Error
	failed   map[string]bool // keys whose value is wrong, so that no rule is checked with it
}

// maxProblems bounds the report: a file that is not ours at all would give one line per line.
const maxProblems = 25

func newLoader(src Source, h host) *loader {
	if src.Env == nil {
		src.Env = func(string) (string, bool) { return "", false }
	}
	return &loader{src: src, host: h, config: &Config{Instance: src.Instance, places: map[string]place{}}, failed: map[string]bool{}}
}

func load(src Source, h host) (*Config, error) {
	l := newLoader(src, h)
	l.readDefaults()
	l.readFile()
	l.readEnv()
	l.readFlags()
	l.derive()
	l.checkRules()
	if err := joined(l.problems); err != nil {
		return nil, err
	}
	return l.config, nil
}

// readDefaults takes the defaults through the same parsers as everything else, so the table's text is the truth.
func (l *loader) readDefaults() {
	for _, s := range settings {
		if s.derived || s.Default == "" {
			continue
		}
		l.set(s, value{data: s.scalarOrList(s.Default)})
	}
}

func (l *loader) readEnv() {
	for _, s := range settings {
		text, ok := l.src.Env(s.Env)
		if !ok || text == "" {
			continue
		}
		l.set(s, value{place: place{origin: fromEnv, name: s.Env}, data: s.scalarOrList(text)})
	}
	l.refuseSecrets()
	l.noteSlips()
}

// noteSlips names variables that were most likely meant for settings. They are no errors: others than this program may
// have variables of their own, and an agent may run where hooks do, among those that hooks are told.
func (l *loader) noteSlips() {
	const prefix = "BULLY_"
	known := append(hooks.Variables(), "BULLY_INSTANCE") // the command line's own, like BULLY_CONFIG, and near BULLY_INSECURE
	var words []string
	for _, s := range settings {
		known, words = append(known, s.Env), append(words, strings.ToLower(strings.TrimPrefix(s.Env, prefix)))
	}
	for _, name := range slices.Sorted(slices.Values(l.src.Names)) {
		word, ours := strings.CutPrefix(name, prefix)
		if text, _ := l.src.Env(name); !ours || text == "" || slices.Contains(known, name) {
			continue
		}
		if near := nearest(word, words); near != "" {
			l.config.Notes = append(l.config.Notes, Printable(cut(name))+" in the environment is no setting: did you mean "+
				prefix+strings.ToUpper(near)+"?")
		}
	}
}

// readFlags takes the last of several values, as every option parser does, unless the setting is a list.
func (l *loader) readFlags() {
	known := make(map[string]bool, len(settings))
	for _, s := range settings {
		given := l.src.Flags[s.Flag]
		if s.Flag == "" || len(given) == 0 {
			continue
		}
		known[s.Flag] = true
		data := any(given[len(given)-1])
		if s.Repeatable {
			data = s.scalarOrList(strings.Join(given, ","))
		}
		l.set(s, value{place: place{origin: fromFlag, name: s.Flag}, data: data})
	}
	for _, name := range sortedKeys(l.src.Flags) {
		if len(l.src.Flags[name]) > 0 && !known[name] {
			l.report(unknownFlag(name).at(place{origin: fromFlag, name: cut(name)}, ""))
		}
	}
}

// scalarOrList splits the text of a repeatable setting at its commas. Empty parts are dropped: `--join "$SEEDS"` with
// nothing in SEEDS means nobody to join.
func (s Setting) scalarOrList(text string) any {
	if !s.Repeatable {
		return text
	}
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// set stores v in the Config and remembers its place.
func (l *loader) set(s Setting, v value) {
	l.config.places[s.Key] = v.place
	err := s.field.parse(l, v)
	l.failed[s.Key] = err != nil
	if err != nil {
		l.report(err.at(v.place, s.Key))
	}
}

func (l *loader) report(err *Error) {
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, err)
	}
}

// isSet reports whether anything but the default gave the setting.
func (l *loader) isSet(key string) bool { return l.config.places[key].origin != fromDefault }
