package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

func hostID(t testing.TB, text string) wire.ID {
	t.Helper()
	id, err := ParseHost(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return id
}

func listOf(t testing.TB, ids ...wire.ID) Hosts {
	t.Helper()
	var all []Host
	for i, id := range ids {
		all = append(all, Host{fmt.Sprintf("h%d", i), id})
	}
	h, err := MakeHosts(all)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestVectorsOfHosts(t *testing.T) {
	for _, v := range vectors(t, "hosts") {
		var ids []wire.ID
		for _, text := range v[1:] {
			ids = append(ids, hostID(t, text))
		}
		h := listOf(t, ids...)
		if got := h.Digest().String(); got != v[0] {
			t.Errorf("digest of %v is %s, want %s", ids, got, v[0])
		}
		slices.Reverse(ids)
		if other := listOf(t, ids...); other.Digest() != h.Digest() {
			t.Errorf("digest of %v depends on the order or on names", ids)
		}
		if h.Digest() == listOf(t, ids[1:]...).Digest() {
			t.Errorf("digest of %v is that of fewer", ids)
		}
	}
}

func TestNoList(t *testing.T) {
	var none Hosts
	id := Public{1}.ID()
	if !none.IsNone() || !none.Admits(id) || none.Has(id) || none.Name(id) != "" || none.Digest() != 0 || none.Digest().String() != "none" || none.IDs() != nil {
		t.Errorf("no list: %v %v", none, none.Digest())
	}
	if made, err := MakeHosts(nil); err != nil || !made.Equal(none) {
		t.Errorf("a list without lines is %v, %v", made, err)
	}
	if _, found := none.Nearest(id); found {
		t.Error("something is near in no list")
	}
}

func TestHosts(t *testing.T) {
	a, b, c := Public{1}.ID(), Public{2}.ID(), Public{3}.ID()
	h, err := MakeHosts([]Host{{"beta", a}, {"alpha", b}})
	if err != nil {
		t.Fatal(err)
	}
	if !h.Admits(a) || !h.Has(b) || h.Admits(c) || h.Has(c) || h.Has(wire.ID{}) || h.Name(a) != "beta" || h.Name(c) != "" {
		t.Errorf("of %v", h)
	}
	if all := h.All(); all[0] != (Host{"alpha", b}) || all[1] != (Host{"beta", a}) {
		t.Errorf("by name: %v", all)
	}
	if renamed, _ := MakeHosts([]Host{{"gamma", a}, {"alpha", b}}); renamed.Equal(h) || renamed.Digest() != h.Digest() {
		t.Error("a name counts in the digest, or does not count as a difference")
	}
	if _, err := MakeHosts([]Host{{"beta", a}, {"alpha", b}, {"gamma", a}}); !errors.Is(err, ErrTwice) || !strings.Contains(err.Error(), "beta and gamma both have "+a.String()) {
		t.Errorf("one id twice: %v", err)
	}
	if _, err := MakeHosts(make([]Host, MaxHosts+1)); err == nil {
		t.Error("a list without bound is taken")
	}
}

func TestNearest(t *testing.T) {
	a, b := Public{1}.ID(), Public{2}.ID()
	h := listOf(t, a, b)
	slip := a
	slip[15] ^= 0x30
	if near, found := h.Nearest(slip); !found || near.ID != a || near.Name != "h0" {
		t.Errorf("nearest is %v, %v", near, found)
	}
	if near, found := h.Nearest(Public{9}.ID()); found {
		t.Errorf("an id of chance is near %v", near)
	}
	if near, found := listOf(t, a).Nearest(a); found {
		t.Errorf("an id is near itself: %v", near)
	}
	slip[0] ^= 0xff
	slip[1] ^= 0xff
	if near, found := h.Nearest(slip); found {
		t.Errorf("five digits are slips: %v", near)
	}
}

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"fe1095c4-2ece-8f33-9e10-046f06a380f5": "", "FE1095C4-2ECE-8F33-9E10-046F06A380F5": "",
		"fe1095c4-2ece-4f33-9e10-046f06a380f5": "version 8", "fe1095c4-2ece-8f33-1e10-046f06a380f5": "version 8",
		"fe1095c4": "not a UUID", "": "not a UUID", "00000000-0000-0000-0000-000000000000": "version 8",
	} {
		_, err := ParseHost(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
