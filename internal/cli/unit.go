package cli

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/doctor"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/unit"
)

// hostRoot is where the host's files begin. Tests have a directory of their own.
var hostRoot = "/"

// service is systemd's unit of the agent that a call means, if root asks, who may be asking for it
// and is not kept from what it is kept from; nil: there is none.
func (c *call) service() *unit.Unit { return service(c.instance.name) }

func service(instance string) *unit.Unit {
	if os.Geteuid() != 0 {
		return nil
	}
	return unit.Find(hostRoot, unit.NameOf(instance))
}

// serviceOwner is whose the unit has the key be; false: nobody else than root, or the file is not the unit's.
func serviceOwner(u *unit.Unit, path string) (o owner, is bool) {
	if u == nil || path != key.DefaultPath || u.KeyUser() == "root" {
		return owner{}, false
	}
	found, err := user.Lookup(u.KeyUser())
	if err != nil {
		return owner{}, false // the start of the unit says that there is no such user
	}
	o, err = userAsOwner(found)
	return o, err == nil
}

// forbidden says what of the resources and commands of a configuration a unit forbids, each in a line.
func forbidden(u *unit.Unit, cfg *config.Config) (all []unit.Forbidden) {
	if f, is := forbiddenAddress(u, cfg); is {
		all = append(all, f)
	}
	if f, is := forbiddenResource(u, cfg, config.Resource.IsUnit, u.ForbidsUnits); is {
		all = append(all, f)
	}
	judge := func(what string, cmd config.Command) {
		for _, f := range forbiddenTo(u, cmd) {
			all = append(all, unit.Forbidden{Text: what + ": under " + u.Name + " " + f.Text, Do: f.Do})
		}
	}
	judge("on_become_leader", cfg.Hooks.OnBecomeLeader)
	judge("on_lose_leadership", cfg.Hooks.OnLoseLeadership)
	judge("on_leader_change", cfg.Hooks.OnLeaderChange)
	judge("on_member_change", cfg.Hooks.OnMemberChange)
	for _, r := range cfg.Resources {
		judge("resource "+r.Name, r.Command)
	}
	for _, k := range cfg.Checks {
		judge("check "+k.Name, k.Command)
	}
	for _, j := range cfg.Jobs {
		judge("job "+j.Name, j.Command)
	}
	return all
}

// forbiddenTo says what of one command a unit forbids, with what it starts if it is a shell script.
func forbiddenTo(u *unit.Unit, cmd config.Command) []unit.Forbidden {
	return u.Forbids(cmd.Shell + strings.Join(cmd.Argv, " ") + scriptText(cmd))
}

// forbiddenAddress is the first address that the unit's agent may not have: it does not start then.
func forbiddenAddress(u *unit.Unit, cfg *config.Config) (f unit.Forbidden, is bool) {
	return forbiddenResource(u, cfg, config.Resource.IsAddress, u.ForbidsAddresses)
}

// forbiddenResource is the first resource of a kind that the unit's agent may not have: one drop-in is for all of them.
func forbiddenResource(u *unit.Unit, cfg *config.Config, has func(config.Resource) bool, forbids func() (unit.Forbidden, bool)) (f unit.Forbidden, is bool) {
	i := slices.IndexFunc(cfg.Resources, has)
	if f, is = forbids(); i < 0 || !is {
		return unit.Forbidden{}, false
	}
	f.Text = "resource " + cfg.Resources[i].Name + ": under " + u.Name + " " + f.Text
	return f, true
}

// maxScript is how much of a script is looked at.
const maxScript = 64 << 10

var shell = regexp.MustCompile(`^#!.*sh\b`)

// scriptText is the text of the shell script that a command is; "": it is none, or cannot be read.
func scriptText(cmd config.Command) string {
	words := strings.Fields(cmd.Shell + strings.Join(cmd.Argv, " "))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return ""
	}
	if info, err := os.Stat(words[0]); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(words[0])
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxScript))
	if !shell.Match(text) {
		return ""
	}
	return "\n" + string(text)
}

// sandboxLines judge the commands of the service whose agent answers, which runs as a user.
func (c *call) sandboxLines(uid int) (lines []doctor.Line) {
	u := c.service()
	agent, err := user.Lookup(u.KeyUser())
	if u == nil || err != nil || agent.Uid != fmt.Sprint(uid) {
		return nil // it was started otherwise
	}
	cfg, err := config.Load(c.sourceHere())
	if err != nil {
		return nil // config check says it
	}
	for _, f := range forbidden(u, cfg) {
		lines = append(lines, doctor.Line{Level: doctor.Warn, Check: "sandbox", Text: f.Text, Do: f.Do})
	}
	return lines
}
