package docs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A ruleset that a page shows is one: nft reads it, and applies nothing (-c).
func TestRulesets(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil || os.Geteuid() != 0 {
		t.Skip("skipped: this needs the command nft (package nftables), and root")
	}
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.language != "nft" {
				continue
			}
			seen++
			cmd := exec.Command("nft", "-c", "-f", "-")
			cmd.Stdin = strings.NewReader(b.text)
			out, err := cmd.CombinedOutput()
			if err != nil && strings.Contains(string(out), "Operation not permitted") {
				t.Skipf("skipped: this process may not ask the kernel: %s", out)
			}
			if err != nil {
				t.Errorf("%s: %v: %s in\n%s", p.path, err, out, b.text)
			}
		}
	}
	if seen == 0 {
		t.Error("no ruleset was found")
	}
}
