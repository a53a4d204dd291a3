package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The leader is taken out of the host lists of the others, by a reload. It hands over and is no member there any more, another leads, and
// its own status says that it is left out. Then it is put back, and leads again.
func TestALeaderIsTakenOutOfTheLists(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for mode, options := range map[string][]string{"available": nil, "quorum": {"--expect", "3"}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, options...)
			best, next := l.best(), l.next()
			stay := []*host{l.hosts[0], next}
			for _, h := range l.hosts {
				h.lists(l.hosts)
				h.options = []string{"--config", h.listPath()}
			}
			l.start()
			l.agreeOn(best)

			for _, h := range stay {
				h.lists(stay)
				if out, code := h.cli("reload"); code == 0 {
					t.Errorf("%s leaves a living host out unasked: %s", h, out)
				}
				if out, code := h.cli("reload", "--drop"); code != 0 {
					t.Errorf("%s: reload --drop: %d: %s", h, code, out)
				}
			}
			l.eventually("it is no member", 5*time.Second, func() error {
				for _, h := range stay {
					if s, err := h.status(); err != nil || s.Alive != 2 {
						return fmt.Errorf("%s: %d are alive, %v", h, s.Alive, err)
					}
				}
				return nil
			})
			l.agreeOn(next, stay...)
			l.eventually("it says so", patience, func() error {
				s, err := best.status()
				if err == nil && (s.LeaderIsSelf || !slices.Contains(s.Bars, "not-listed")) {
					err = fmt.Errorf("%s leads: %t, bars %v", best, s.LeaderIsSelf, s.Bars)
				}
				return err
			})
			if out, _ := best.cli("status"); !strings.Contains(out, "leaves it out of its hosts") {
				t.Errorf("its status says nothing of who leaves it out:\n%s", out)
			}
			l.led(best, next)
			l.journal.order(on(best, loseBegin).because("not-listed"), on(best, loseEnd), on(next, becomeBegin))
			if mode == "quorum" {
				l.eventually("it is forgotten", patience, func() error { return votersAre(next, stay) })
			}

			for _, h := range stay {
				h.lists(l.hosts)
				if out, code := h.cli("reload"); code != 0 {
					t.Errorf("%s: reload: %d: %s", h, code, out)
				}
			}
			l.agreeOn(best)
			l.led(best, next, best)
			if mode == "quorum" {
				l.eventually("it votes again", patience, func() error { return votersAre(best, l.hosts) })
			}
		})
	}
}

func (h *host) listPath() string { return filepath.Join(h.dir, "agent.toml") }

// lists writes the file of h, with a host list of these.
func (h *host) lists(hosts []*host) {
	h.lan.t.Helper()
	text := "[network.hosts]\n"
	for _, other := range hosts {
		id, code := other.cli("id", "--state-dir", filepath.Join(other.dir, "state"))
		if code != 0 {
			h.lan.t.Fatalf("id of %s: %d", other, code)
		}
		text += fmt.Sprintf("%s = %q\n", other, strings.TrimSpace(id))
	}
	must(h.lan.t, os.WriteFile(h.listPath(), []byte(text), 0o600))
}

// votersAre is nil if the roster at h has exactly these.
func votersAre(h *host, hosts []*host) error {
	s, err := h.status()
	if err != nil || s.Roster == nil {
		return fmt.Errorf("%s has no roster: %v", h, err)
	}
	var names, want []string
	for _, v := range s.Roster.Voters {
		names = append(names, v.Name)
	}
	for _, voter := range hosts {
		want = append(want, voter.name)
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		return fmt.Errorf("the voters at %s are %v", h, names)
	}
	return nil
}
