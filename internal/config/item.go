package config

import (
	"fmt"
	"slices"
	"strings"
)

// item is one table of an array, such as a [[job]]: where it stands, and what of it is wrong.
type item struct {
	array  string // "job"
	header place
	places map[string]place // key → where its value stands; no entry: default
	failed map[string]bool  // keys whose value is wrong
}

func newItem(array string, t arrayTable) item {
	return item{array: array, header: t.place, places: map[string]place{}, failed: map[string]bool{}}
}

// itemKey is one key of the tables of an array. Its field is of the table that is being read.
type itemKey struct {
	name     string
	required string // an example; "": it may be left out
	field    field
}

func (i *item) place(key string) place {
	if at, ok := i.places[key]; ok {
		return at
	}
	return i.header
}

// has reports whether a key is written.
func (i *item) has(key string) bool {
	_, here := i.places[key]
	return here
}

// reportItem says what is wrong with one key of a table, the first thing only.
func (l *loader) reportItem(i *item, key string, err *Error) {
	if !i.failed[key] {
		i.failed[key] = true
		l.report(err.at(i.place(key), i.array+"."+key))
	}
}

// applyItem reads what a table holds.
func (l *loader) applyItem(i *item, keys []itemKey, entries []entry) {
	for _, e := range entries {
		l.applyItemEntry(i, keys, e)
	}
	for _, k := range keys {
		if k.required != "" && !i.has(k.name) {
			i.failed[k.name] = true
			l.report(wrong("%s is missing: expected a line such as %s", k.name, k.required).at(i.header, i.array))
		}
	}
}

func (l *loader) applyItemEntry(i *item, keys []itemKey, e entry) {
	key := normalise(e.path)
	n := slices.IndexFunc(keys, func(k itemKey) bool { return k.name == key })
	if n < 0 {
		l.report(unknownItemKey(i.array, keys, key).at(e.key, i.array+"."+written(e.path)))
		return
	}
	if earlier, twice := i.places[key]; twice { // with a hyphen and with an underscore
		l.report(wrong("it is set twice: also on line %d", earlier.line).hint("remove one").at(e.key, i.array+"."+key))
		return
	}
	i.places[key] = e.value.place
	if err := keys[n].field.parse(l, e.value); err != nil {
		l.reportItem(i, key, err)
	}
}

func unknownItemKey(array string, keys []itemKey, key string) *Error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	err := wrong("there is no such key")
	if near := nearest(key, names); near != "" {
		return err.hint("did you mean %s?", near)
	}
	has := fmt.Sprintf("a %s has %s", array, strings.Join(names, ", "))
	if i := slices.IndexFunc(settings, func(s Setting) bool { return s.name() == key }); i >= 0 { // it was written below the last table
		return err.hint("%s; %s", settings[i].whereItStands(), has)
	}
	return err.hint("%s", has)
}

// name is a setting's within its table.
func (s Setting) name() string {
	_, name, _ := cutLast(s.Key)
	return name
}

// whereItStands says in which table of a file a setting is.
func (s Setting) whereItStands() string {
	if table, name, inTable := cutLast(s.Key); inTable {
		return fmt.Sprintf("%s is a key of [%s]", name, table)
	}
	return s.Key + " is a key above the first table"
}

// checkItemCommand refuses a command that is written and empty.
func (l *loader) checkItemCommand(i *item, c Command) {
	if !i.failed["command"] && c.IsZero() {
		l.reportItem(i, "command", wrong("it is empty: expected a string for the shell or an array of strings"))
	}
}

// checkTwin refuses a second table of one name.
func (l *loader) checkTwin(i *item, name string, isTwin bool, twin *item) {
	if isTwin && !i.failed["name"] {
		l.reportItem(i, "name", wrong("%s is the name of two %ss: also on line %d", quote(name), i.array, twin.place("name").line).
			hint("give each its own"))
	}
}
