package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a TOML file as a flat list of what it sets, in its own order, each with its place.
//
// Decoding and positions come from two passes over the text, since the decoder drops the positions: toml.Unmarshal
// gives the values and rejects what is not TOML, the unstable parser says where each stands. The second pass relies on
// the first, and so never meets a syntax error.
type document struct {
	file    string
	data    []byte
	lines   lines
	decoded map[string]any

	headers []header
	entries []entry
	arrays  []arrayTable
}

// arrayTable is one [[job]], [[check]] or [[resource]] with what is in it. The paths of its entries begin below it.
type arrayTable struct {
	name    string
	place   place
	entries []entry
}

// arraysOf gives those of one name.
func (d *document) arraysOf(name string) []arrayTable {
	return slices.DeleteFunc(slices.Clone(d.arrays), func(t arrayTable) bool { return t.name != name })
}

// header is a [table] or an [[array of tables]].
type header struct {
	path  []string // as written
	place place
	array bool
}

// entry is one key and its value. Inline tables are entries of their own for each key in them.
type entry struct {
	path  []string // as written, the table's name included
	key   place
	value value
}

// parseDocument parses text that checkText has passed.
func parseDocument(file string, data []byte) (*document, *Error) {
	d := &document{file: file, data: data, lines: newLines(data)}
	if err := toml.Unmarshal(data, &d.decoded); err != nil {
		return nil, d.syntaxError(err)
	}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	arrays, skip, inArray := map[string]bool{}, false, false
	for p.NextExpression() {
		switch node := p.Expression(); node.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keyParts(node)
			array := node.Kind == unstable.ArrayTable
			// Of arrays of tables only the contents of those that are known mean something; naming the header of another is enough.
			if array {
				arrays[normalise(table)] = true
			}
			skip = isInside(table, arrays)
			h := header{path: table, place: d.place(keyOffset(node)), array: array}
			if inArray = h.isKnownArray(); inArray {
				d.arrays = append(d.arrays, arrayTable{name: h.path[0], place: h.place})
			}
			if isTableValue(table) && !array {
				d.beginTable(table, h.place, h.place)
				continue
			}
			d.headers = append(d.headers, h)
		case unstable.KeyValue:
			switch {
			case inArray:
				d.addArrayEntry(node)
			case !skip:
				d.addEntry(table, node)
			}
		}
	}
	return d, nil
}

// isKnownArray reports whether a [[job]], a [[check]] or a [[resource]] begins here.
func (h header) isKnownArray() bool {
	return h.array && len(h.path) == 1 && slices.Contains(arrayNames, h.path[0])
}

// addArrayEntry adds to the last of these tables.
func (d *document) addArrayEntry(node *unstable.Node) {
	t := &d.arrays[len(d.arrays)-1]
	all, _ := d.decoded[t.name].([]any)
	decoded, _ := all[len(d.arraysOf(t.name))-1].(map[string]any)
	path := keyParts(node)
	t.entries = append(t.entries, d.entryOf(path, lookup(decoded, path), node))
}

func (d *document) addEntry(table []string, node *unstable.Node) {
	path := slices.Concat(table, keyParts(node))
	if n := len(path) - 1; n > 1 && isTableValue(path[:2]) {
		d.addToTable(path, d.place(d.valueOffset(node)), d.place(keyOffset(node)))
		return
	}
	if isTableValue(path) && node.Value().Kind == unstable.InlineTable {
		d.beginTable(path, d.place(keyOffset(node)), d.place(d.valueOffset(node)))
		for children := node.Value().Children(); children.Next(); {
			child := slices.Concat(path, keyParts(children.Node()))
			d.addToTable(child, d.place(d.valueOffset(children.Node())), d.place(keyOffset(children.Node())))
		}
		return
	}
	if node.Value().Kind == unstable.InlineTable {
		d.addInline(path, node)
		return
	}
	d.entries = append(d.entries, d.entryOf(path, lookup(d.decoded, path), node))
}

// isTableValue: the path is that of a setting whose value is a table, which may be written inline, under a header of its own, or
// with dots.
func isTableValue(path []string) bool { return len(path) == 2 && normalise(path) == hostsKey }

// beginTable adds the entry of such a setting, without its lines.
func (d *document) beginTable(path []string, key, at place) {
	d.entries = append(d.entries, entry{path: slices.Clone(path), key: key, value: value{place: at, data: lookup(d.decoded, path)}})
}

// addToTable adds a line to the entry. What is below a line, a name with a dot that is not in quotes, belongs to it.
func (d *document) addToTable(path []string, at, key place) {
	i := slices.IndexFunc(d.entries, func(e entry) bool { return slices.Equal(e.path, path[:2]) })
	if i < 0 {
		i = len(d.entries)
		d.beginTable(path[:2], key, key)
	}
	if v := &d.entries[i].value; !slices.Contains(v.names, path[2]) {
		v.names, v.elems = append(v.names, path[2]), append(v.elems, at)
	}
}

func (d *document) entryOf(path []string, data any, node *unstable.Node) entry {
	v := value{place: d.place(d.valueOffset(node)), data: data}
	if node.Value().Kind == unstable.Array {
		v.elems = d.elements(node.Value(), v.place)
	}
	return entry{path: path, key: d.place(keyOffset(node)), value: v}
}

func (d *document) addInline(path []string, node *unstable.Node) {
	d.headers = append(d.headers, header{path: path, place: d.place(keyOffset(node))})
	if len(path) > 1 {
		return // no table of ours: the header is reported
	}
	children := node.Value().Children()
	for children.Next() {
		d.addEntry(path, children.Node())
	}
}

// elements gives each scalar of an array its own place. Nested arrays have no range in the tree and take the array's.
func (d *document) elements(array *unstable.Node, whole place) []place {
	var places []place
	children := array.Children()
	for children.Next() {
		at := whole
		if raw := children.Node().Raw; raw.Length > 0 {
			at = d.place(int(raw.Offset))
		}
		places = append(places, at)
	}
	return places
}

// valueOffset finds the value behind the key: arrays and inline tables have no range of their own in the tree.
func (d *document) valueOffset(node *unstable.Node) int {
	end := 0
	for keys := node.Key(); keys.Next(); {
		raw := keys.Node().Raw
		end = int(raw.Offset + raw.Length)
	}
	for end < len(d.data) && strings.IndexByte(" \t=", d.data[end]) >= 0 {
		end++
	}
	return end
}

func (d *document) place(offset int) place {
	line, col := d.lines.position(offset)
	return place{origin: fromFile, name: d.file, line: line, col: col}
}

// whole is the place of what concerns the file and no line of it.
func whole(file string) place { return place{origin: fromFile, name: file} }

func (d *document) syntaxError(err error) *Error {
	var bad *toml.DecodeError
	if !errors.As(err, &bad) {
		return wrong("is not TOML: %s", cut(strings.TrimPrefix(err.Error(), "toml: "))).at(whole(d.file), "")
	}
	problem := wrong("%s", cut(strings.TrimPrefix(bad.Error(), "toml: ")))
	problem.place.line, problem.place.col = bad.Position()
	if strings.Contains(problem.Message, "start of value") || strings.Contains(problem.Message, "must be quoted") {
		problem.hint("text goes in quotes; numbers, true and false do not")
	}
	return problem.at(whole(d.file), "")
}

func keyParts(node *unstable.Node) []string {
	var parts []string
	for keys := node.Key(); keys.Next(); {
		parts = append(parts, string(keys.Node().Data))
	}
	return parts
}

func keyOffset(node *unstable.Node) int {
	keys := node.Key()
	keys.Next()
	return int(keys.Node().Raw.Offset)
}

// lookup follows a path of tables to a value. The path comes from the same text, so it exists.
func lookup(table map[string]any, path []string) any {
	last := len(path) - 1
	for _, part := range path[:last] {
		table, _ = table[part].(map[string]any)
	}
	return table[path[last]]
}

// normalise is the name of a path in the table of settings, or what would be one.
func normalise(path []string) string { return strings.ReplaceAll(written(path), "-", "_") }

// written joins a path with dots. Parts that could not be a key of ours are quoted, so that "node.priority" in quotes
// is not node.priority.
func written(path []string) string {
	parts := make([]string, len(path))
	for i, part := range path {
		parts[i] = part
		if part == "" || strings.Trim(part, bareKey) != "" {
			parts[i] = strconv.Quote(part)
		}
	}
	return strings.Join(parts, ".")
}

const bareKey = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// lines holds the offset at which each line starts, so that many positions cost little.
type lines []int

func newLines(data []byte) lines {
	starts := lines{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// position gives the line and the column in bytes, both from 1, as compilers do.
func (l lines) position(offset int) (line, col int) {
	i, found := slices.BinarySearch(l, offset)
	if !found {
		i--
	}
	return i + 1, offset - l[i] + 1
}
