package hookrun

import (
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
)

// BenchmarkBegin is what a become-leader hook waits for: its record on the disk.
func BenchmarkBegin(b *testing.B) {
	noted := make(chan hooks.Noted, 1)
	j := journal{path: b.TempDir() + "/" + journalName, backlog: &backlog{}, noted: func(n hooks.Noted) { noted <- n }}
	for b.Loop() {
		j.note(hooks.Note{Page: hooks.Page{Owed: &hooks.Epoch{Counter: 1, Owner: "a"}}, IsBegin: true})
		if n := <-noted; n.Err != nil {
			b.Fatal(n.Err)
		}
	}
}
