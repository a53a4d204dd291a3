package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"testing"
)

// The seat, which is all that belongs to one leadership, knows no host; and its host, the
// agent, knows no epoch. A file is of one of them, by the types that it declares or has
// methods of, and with it all that is in it. A few are of neither: clock, counters, errors
// and the view, which both use; they are not looked at, except for what is in the others.
//
// An epoch may go through the host's hands: it may name the type, or hand x.Epoch on as an
// Epoch. That a host reaches into its seat, and compares there, is not noticed unless it
// names what is an epoch's.
func TestTheSeatKnowsNoHostAndTheHostNoEpoch(t *testing.T) {
	var (
		ofTheSeat = []string{"seat", "seatConfig", "standing", "surroundings", "jobDesk", "jobConfig", "jobSurroundings", "passOn", "redo", "tally",
			"history", "holders", "stateFile", "ledgerFile"}
		ofTheHost = []string{"agent", "snapshot", "transport", "Membership", "Listener"}
		ofAnEpoch = []string{"Counter", "Owner", "Reign", "Promoted"}
		neither   = []string{"clock.go", "counters.go", "errors.go", "home.go", "question.go", "view.go"}
	)
	var seats, hosts int
	for _, s := range sources(t) {
		if s.dir != "agent" {
			continue
		}
		isSeat, isHost := owns(s.file, ofTheSeat), owns(s.file, []string{"agent"})
		isNeither := slices.Contains(neither, path.Base(s.name))
		switch {
		case isSeat && isHost:
			t.Errorf("%s is of the seat and of its host: part it", s.name)
		case isSeat:
			seats++
			for _, n := range named(s.file, ofTheHost) {
				t.Errorf("%s: the seat names %s, which is its host's: let surroundings have a method for it", s.at(n), n.Name)
			}
		case isHost:
			hosts++
			for _, n := range append(named(s.file, ofAnEpoch), epochsRead(s.file)...) {
				t.Errorf("%s: the host names %s: what is about an epoch belongs to the seat", s.at(n), n.Name)
			}
		}
		if isNeither == (isSeat || isHost) {
			t.Errorf("%s: say whether it is of the seat, of its host, or of neither", s.name)
		}
	}
	if seats < 10 || hosts < 10 {
		t.Errorf("found %d files of the seat and %d of its host: this test looks for the wrong names", seats, hosts)
	}
}

// owns reports whether a file declares one of these types, or a method of one.
func owns(file *ast.File, types []string) bool {
	return slices.ContainsFunc(file.Decls, func(decl ast.Decl) bool { return slices.Contains(types, ownerOf(decl)) })
}

// ownerOf is the type that a declaration declares, or is a method of.
func ownerOf(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.GenDecl:
		if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return spec.Name.Name
		}
	case *ast.FuncDecl:
		if d.Recv == nil {
			return ""
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if name, ok := of.(*ast.Ident); ok {
			return name.Name
		}
	}
	return ""
}

// named gives the identifiers that a file uses, out of some. Its own package clause is no
// use.
func named(file *ast.File, names []string) (found []*ast.Ident) {
	for _, decl := range file.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && slices.Contains(names, id.Name) {
				found = append(found, id)
			}
			return true
		})
	}
	return found
}

// epochsRead gives each x.Epoch of a file that is not handed on as an Epoch, unless x is a
// package.
func epochsRead(file *ast.File) (found []*ast.Ident) {
	packages := map[string]bool{}
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		packages[path.Base(name)] = true
	}
	handedOn := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr: // comes before its value
			key, ok := n.Key.(*ast.Ident)
			handedOn[n.Value] = ok && key.Name == "Epoch"
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if n.Sel.Name == "Epoch" && !handedOn[n] && !(ok && packages[x.Name]) {
				found = append(found, n.Sel)
			}
		}
		return true
	})
	return found
}
