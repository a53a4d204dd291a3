package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readFile applies the file: known keys to their settings, everything else to the report.
func (l *loader) readFile() {
	if l.src.Path == "" {
		return
	}
	data, err := readText(l.src.Path, l.host.root)
	if err == nil {
		err = l.checkTrust()
	}
	if err != nil {
		if _, missing := os.Stat(l.src.Path); l.src.Path == InstanceFile(l.src.Instance) && errors.Is(missing, fs.ErrNotExist) {
			err.hint("instance %s has its settings there: write them, or name another file with --config", l.src.Instance)
		}
		l.report(err.at(whole(l.src.Path), ""))
		return
	}
	l.readDocument(data)
}

// checkTrust asks of root's file what is asked of the hooks that it names, which run as root: owner, group, access control
// list, and the same of each directory on the way to it.
func (l *loader) checkTrust() *Error {
	if !l.host.root || l.host.trust == nil {
		return nil
	}
	path, err := filepath.Abs(l.src.Path)
	if err == nil {
		err = l.host.trust(path)
	}
	if err != nil {
		return wrong("its hooks run as root, and somebody else could have written it: %s", err)
	}
	return nil
}

func (l *loader) readDocument(data []byte) {
	data, err := checkText(data)
	if err != nil {
		l.report(err.at(whole(l.src.Path), ""))
		return
	}
	doc, err := parseDocument(l.src.Path, data)
	if err != nil {
		l.report(err)
		return
	}
	l.applyEntries(doc, l.applyHeaders(doc))
	l.applyJobs(doc.arraysOf(jobName))
	l.applyChecks(doc.arraysOf(checkName))
	l.applyResources(doc.arraysOf(resourceName))
}

// applyHeaders reports each table that cannot be, once, and returns their names: what is in them needs no report.
func (l *loader) applyHeaders(doc *document) (bad map[string]bool) {
	bad = map[string]bool{}
	for _, h := range doc.headers {
		table := normalise(h.path)
		if isTable(table) && !h.array || h.isKnownArray() || isInside(h.path, bad) {
			continue
		}
		bad[table] = true
		l.report(badTable(table).at(h.place, written(h.path)))
	}
	return bad
}

// isInside reports whether one of the path's outer tables, or the table itself, is in the set. Ours are one deep; what
// is deeper than three was reported by a header that is not.
func isInside(path []string, set map[string]bool) bool {
	for i := range min(len(path), 3) {
		if set[normalise(path[:i+1])] {
			return true
		}
	}
	return false
}

func (l *loader) applyEntries(doc *document, bad map[string]bool) {
	first := map[string]entry{}
	for _, e := range doc.entries {
		if isInside(e.path, bad) {
			continue
		}
		key := normalise(e.path)
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
		if i < 0 {
			l.reportEntry(e, key)
			continue
		}
		// TOML itself refuses the same key twice, but not the same setting with a hyphen and with an underscore.
		if earlier, twice := first[key]; twice {
			l.report(wrong("it is set twice: also on line %d", earlier.key.line).hint("remove one").at(e.key, key))
			continue
		}
		first[key] = e
		l.set(settings[i], e.value)
	}
}

// reportEntry says why an entry is no setting.
func (l *loader) reportEntry(e entry, key string) {
	if slices.Contains(arrayNames, key) {
		l.report(wrong("%s: expected an array of tables", e.value.found()).hint("write [[%s]] for each and its keys below", key).at(e.key, key))
		return
	}
	if isTable(key) {
		err := wrong("%s: expected a table", e.value.found()).hint("write [%s] and its keys below", key)
		l.report(err.at(e.value.place, key))
		return
	}
	l.report(unknownKey(key).at(e.key, written(e.path)))
}

// tables are the names of the tables that settings stand in.
var tables = func() (names []string) {
	for _, s := range settings {
		if table, _, found := strings.Cut(s.Key, "."); found && !slices.Contains(names, table) {
			names = append(names, table)
		}
	}
	return names
}()

// arrayNames are the names of the arrays of tables.
var arrayNames = []string{jobName, checkName, resourceName}

func isTable(name string) bool { return slices.Contains(tables, name) }

// badTable is the error for a header that no settings stand under.
func badTable(table string) *Error {
	array, _, isBelow := strings.Cut(table, ".")
	switch isArray := slices.Contains(arrayNames, array); {
	case isArray && !isBelow:
		return wrong("it is one table: expected an array of tables").hint("write [[%s]]", array)
	case isArray:
		return wrong("a %s has no tables of its own", array).hint("write key = value below [[%s]]", array)
	case isTable(table): // as an array
		return wrong("it is an array of tables: expected one table").hint("write [%s]", table)
	case slices.ContainsFunc(settings, func(s Setting) bool { return s.Key == table }):
		return wrong("it is a table: expected a value").hint("write it as key = value")
	}
	err := wrong("there is no such table")
	switch near := nearest(table, slices.Concat(arrayNames, tables)); near {
	case "":
	case jobName, checkName, resourceName:
		err.hint("did you mean [[%s]]?", near)
	default:
		err.hint("did you mean [%s]?", near)
	}
	return err
}
