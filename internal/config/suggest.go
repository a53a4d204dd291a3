package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// nearest is the candidate that a slip of the finger is most likely to have meant, or "" when none is near.
func nearest(word string, candidates []string) string {
	// Longer words are no slip of any of ours, and the distance costs their length squared.
	const longest = 64
	if len(word) > longest {
		return ""
	}
	word = strings.ToLower(word)
	// Two letters changed places count as two.
	best, least := "", max(2, len(word)/3)+1
	if len(word) < 4 {
		least = 2
	}
	for _, c := range candidates {
		if len(word) >= 3 && strings.HasPrefix(c, word) {
			return c
		}
		d := smetrics.WagnerFischer(word, c, 1, 1, 1)
		if d < least || d == least && best != "" && len(c) > len(best) { // addreses is addresses, and no address
			best, least = c, d
		}
	}
	return best
}

// unknownKey is the error for a key that no setting has: path is where it stands, normalised.
func unknownKey(path string) *Error {
	err := wrong("there is no such key")
	if path == "log.record" { // of earlier versions
		return err.hint("the flight recorder is gone: remove the line; the log has each step with level = %s", quote("trace"))
	}
	if near := nearestKey(path); near != "" {
		return err.hint("did you mean %s?", near)
	}
	return err
}

// nearestKey looks for the same name in another table, then for a similar one in the key's own, then in all. Where there is no such
// table, that may be the slip.
func nearestKey(path string) string {
	table, name, _ := cutLast(path)
	var siblings, names, all []string
	elsewhere := ""
	for _, s := range settings {
		t, n, _ := cutLast(s.Key)
		if n == name || s.Flag != "" && strings.ReplaceAll(s.Flag, "-", "_") == name {
			elsewhere = cmp.Or(elsewhere, s.Key)
		}
		if t == table {
			siblings = append(siblings, n)
		}
		names, all = append(names, n), append(all, s.Key)
	}
	if i := slices.IndexFunc(siblings, func(n string) bool { return strings.HasPrefix(n, name+"_") }); i >= 0 { // key of http is key_file
		return siblings[i]
	}
	if near := cmp.Or(elsewhere, nearest(name, siblings)); near != "" {
		return near
	}
	if table != "" && !isTable(table) {
		return nearest(path, all)
	}
	if i := slices.Index(names, nearest(name, names)); i >= 0 {
		return all[i]
	}
	return ""
}

func unknownFlag(name string) *Error {
	var flags []string
	for _, s := range settings {
		if s.Flag != "" {
			flags = append(flags, s.Flag)
		}
	}
	err := wrong("there is no such flag")
	if near := nearest(name, flags); near != "" {
		err.hint("did you mean --%s?", near)
	}
	return err
}

// cutLast splits at the last dot; without one the table is "".
func cutLast(path string) (table, name string, found bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
