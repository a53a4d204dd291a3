package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/rights"
)

// setApart has the agent give up its rights, if a user is configured.
func setApart(ac *agent.Config, name string) error {
	if name == "" {
		return nil
	}
	u, err := rights.Lookup(name)
	if err != nil {
		return &failure{code: exitConfig, err: err, hint: "make it (deploy/systemd/bully-agent.sysusers), or leave user out"}
	}
	if uid := os.Geteuid(); uid != 0 && uid != u.UID {
		return &failure{code: exitConfig, err: errors.New("this process is not root: it cannot become user " + u.Name),
			hint: "start it as root, or leave user out"}
	}
	ac.Apart = &agent.Apart{UID: u.UID, GID: u.GID}
	return nil
}

// access is who may use the socket.
func access(c config.Control) (control.Access, error) {
	if c.Group == "" {
		return control.Access{}, nil
	}
	group, err := user.LookupGroup(c.Group)
	if err != nil {
		return control.Access{}, &failure{code: exitConfig, err: fmt.Errorf("there is no group %q on this host", c.Group), hint: "make it, or leave group out of [control]"}
	}
	a := control.Access{}
	if a.GID, err = strconv.Atoi(group.Gid); err != nil || a.GID == 0 {
		return control.Access{}, &failure{code: exitConfig, err: fmt.Errorf("group %q is root's", c.Group), hint: "choose another, or leave group out of [control]"}
	}
	for _, right := range c.GroupMay {
		a.May = append(a.May, control.Right(right))
	}
	return a, nil
}

// giveUp makes this process that user's. What it reads later it must be able to read then.
func giveUp(name string, paths []string, log hclog.Logger) error {
	u, err := rights.Lookup(name)
	if err != nil {
		return err
	}
	if err := realtime.Keep(); err != nil {
		log.Warn("real time cannot be taken again, should it once be given up", "err", err)
	}
	if err := rights.GiveUp(u); err != nil {
		return err
	}
	log.Info("rights given up", "user", u.Name, "uid", u.UID)
	for _, path := range paths {
		if f, err := os.Open(path); errors.Is(err, fs.ErrPermission) {
			log.Warn("this file cannot be read any more: a reload needs it readable for the user", "file", path, "user", u.Name)
		} else if err == nil {
			f.Close()
		}
	}
	return nil
}
