package hooks

import (
	"maps"
	"os"
	"reflect"
	"syscall"
	"time"
)

// kept is what the hooks of one leadership run by. A reload, and the next life of the
// agent, leave that alone until the lose-leadership hook has succeeded: what a
// become-leader hook has taken is released by the hook that was its pair then. Another
// address in both hooks would else leave the first one on this host for ever.
//
// There are two exceptions, without which nobody could mend anything. A hook that the
// leadership has none of is taken from the reload at once: nothing is due by it. And
// when a hook has failed of itself, the next reload holds for this leadership as well.
type kept struct {
	Epoch   Epoch         `json:"epoch"`
	Become  Command       `json:"become"`
	Lose    Command       `json:"lose"`
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`

	failed bool // the last run of one of its hooks has, of itself
}

func keep(cfg Config, epoch Epoch) *kept {
	return &kept{Epoch: epoch, Become: cfg.Commands[BecomeLeader], Lose: cfg.Commands[LoseLeadership],
		Timeout: cfg.Timeout, Grace: cfg.Grace}
}

// in is cfg with what the leadership keeps.
func (k *kept) in(cfg Config) Config {
	cfg.Commands = maps.Clone(cfg.Commands)
	if cfg.Commands == nil {
		cfg.Commands = make(map[Kind]Command)
	}
	cfg.Commands[BecomeLeader], cfg.Commands[LoseLeadership] = k.Become, k.Lose
	cfg.Timeout, cfg.Grace = k.Timeout, k.Grace
	return cfg
}

// reload is what the leadership keeps when cfg is loaded while it goes on.
func (k *kept) reload(cfg Config) *kept {
	next := keep(cfg, k.Epoch)
	if k.failed {
		return next
	}
	same := *k
	if same.Become.IsZero() {
		same.Become = next.Become
	}
	if same.Lose.IsZero() {
		same.Lose = next.Lose
	}
	return &same
}

// isAs reports whether both run the same.
func (k *kept) isAs(other *kept) bool {
	mine, theirs := *k, *other
	mine.failed, theirs.failed = false, false
	return reflect.DeepEqual(mine, theirs)
}

// configFor is what a hook of the leadership runs by; the caller holds mu.
func (r *Runner) configFor(epoch uint64) Config {
	if r.kept != nil && r.kept.Epoch.Counter == epoch {
		return r.kept.in(r.cfg)
	}
	return r.cfg
}

// keepFrom has a leadership keep the configuration that its become-leader hook begins
// with; the caller holds mu.
func (r *Runner) keepFrom(epoch Epoch) {
	if r.kept == nil || r.kept.Epoch != epoch {
		r.kept = keep(r.cfg, epoch)
	}
}

// learn draws the conclusions from the end of a leadership hook; the caller holds mu.
func (r *Runner) learn(res Result) {
	k := r.kept
	switch {
	case k == nil || k.Epoch.Counter != res.Epoch:
	case res.OK && res.Kind == LoseLeadership:
		r.kept = nil
	case res.OK:
		k.failed = false
	case res.isOwnFailure():
		k.failed = true
		r.journal.keep(nil) // to start the agent anew is a reload, too
	}
}

// isOwnFailure reports whether the hook failed of itself, and somebody has been told.
// One that was ended early may be well.
func (res Result) isOwnFailure() bool { return !res.OK && !res.TakenOver && !res.IsCut }

// Keeps is the epoch of a leadership whose hooks are not those that are configured
// now, since the configuration was loaded while it went on; false if there is none.
func (r *Runner) Keeps() (epoch uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil || r.kept.isAs(keep(r.cfg, r.kept.Epoch)) {
		return 0, false
	}
	return r.kept.Epoch.Counter, true
}

// isOurs reports whether nobody else could have written a file: what it says is run.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() {
		return false
	}
	return stat.Uid != 0 || CheckTrust(path) == nil
}
