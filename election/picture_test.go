package election

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// What a picture leaves out is known, and each of it for a reason: the source of chance
// and the effects are not the Node's alone, the strategy follows from the settings, frames
// about jobs are not for Step, and scratch is scratch. Anything else that had the tag
// would be forgotten in a record.
func TestAPictureLeavesOutWhatItMay(t *testing.T) {
	var left []string
	seen := map[reflect.Type]bool{}
	var look func(t reflect.Type)
	look = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			look(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			for i := range t.NumField() {
				if f := t.Field(i); f.Tag.Get("pack") != "" {
					left = append(left, t.Name()+"."+f.Name)
				} else {
					look(f.Type)
				}
			}
		}
	}
	look(reflect.TypeFor[Node]())
	slices.Sort(left)
	if want := []string{"Config.Rand", "Lease.scratch", "Node.in", "Node.out", "Node.strategy"}; !slices.Equal(left, want) {
		t.Errorf("left out are %q, expected %q", left, want)
	}
}

// A Node that is restored has the state of the first, and does the same from there on:
// with each schedule of the simulator, see its TestRecordsOfSchedulesReplay. Here, what
// was made up is refused.
func TestRestoreTakesAnyBytes(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	node, err := New(Config{ID: wire.ID{1}, Rand: chance}, Saved{Incarnation: 1}, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	node.Step(time.Unix(1001, 0), MemberChanged{Member: Member{ID: wire.ID{2}, Status: Alive}})
	picture := node.AppendPicture(nil)
	again, err := Restore(picture, chance)
	if err != nil || !bytes.Equal(again.AppendPicture(nil), picture) {
		t.Fatalf("restored otherwise: %v", err)
	}
	for size := range picture {
		if _, err := Restore(picture[:size], chance); err == nil {
			t.Fatalf("%d of %d bytes are a node", size, len(picture))
		}
	}
	if _, err := Restore(append(slices.Clone(picture), 0), chance); err == nil {
		t.Error("a byte too many is taken")
	}
	node.state = 200
	if _, err := Restore(node.AppendPicture(nil), chance); err == nil {
		t.Error("a state that there is none of is taken")
	}
}
