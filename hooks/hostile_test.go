package hooks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/hostile"
)

// Whatever another host is called, its name is in no variable of a hook's environment
// that a shell could take for more than a word, and the JSON object is one line.
func TestCase46_HostileNamesReachNoEnvironment(t *testing.T) {
	for _, name := range hostile.Names() {
		n := Node{Name: name, ID: name, Addr: name}
		ev := Event{Kind: Kind(name), Cause: name, Cluster: name, Role: name, Mode: name, Epoch: Epoch{Owner: name}, Self: n, Leader: n,
			PrevLeader: n, Members: []Member{{Name: name, ID: name, Addr: name, Status: name}}}
		for _, v := range Environ(ev, Circumstances{Socket: name}, func(string) string { return "" })[len(inherited):] {
			_, value, _ := strings.Cut(v, "=")
			if value != "" && (strings.Trim(value, safeMarks+labels) != "" || len(value) > maxValue) {
				t.Errorf("%q: %q", name, v)
			}
		}
		text := strings.TrimSuffix(string(Payload(ev, Circumstances{})), "\n")
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) || !json.Valid([]byte(text)) {
			t.Errorf("%q: %q", name, text)
		}
	}
}

const labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
