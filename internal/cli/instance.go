package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/unit"
)

// instanceVariable names the instance where no flag does, so that a unit, a shell or a crontab can.
const instanceVariable = "BULLY_INSTANCE"

// instanceOption is every command's that reads a configuration or asks an agent, and the program's, before the command.
var instanceOption = option{name: "instance", short: "i", value: "NAME",
	usage: "which of several agents on this host; " + instanceVariable + " names one too", offer: instancesHere}

// withInstance gives the option to the commands that --config or --socket lead to an agent.
func withInstance(all []command) []command {
	for i := range all {
		cmd := &all[i]
		cmd.subcommands = withInstance(slices.Clone(cmd.subcommands))
		if at := slices.IndexFunc(cmd.options, leadsToAgent); at >= 0 {
			cmd.options = slices.Insert(slices.Clone(cmd.options), at+1, instanceOption)
		}
	}
	return all
}

func leadsToAgent(o option) bool {
	return o.name == configOption.name || o.name == socketOption.name && o.group == ""
}

// instance is the agent that a call means: one of several on this host, or "" for the one without a name.
type instance struct {
	name string
	// isFlag: it was named on the command line, and so wins over variables that lead to another agent, such as those
	// that a hook of that one is given.
	isFlag bool
}

// instanceOf reads a call's flag, before or after the command, else the variable.
func (c *call) instanceOf() (instance, error) {
	takes := slices.ContainsFunc(c.command.options, func(o option) bool { return o.name == instanceOption.name })
	for _, ctx := range c.Lineage() {
		if ctx.Command == nil || !ctx.IsSet(instanceOption.name) {
			continue
		}
		if !takes {
			return instance{}, usage("see "+c.path+" --help", "--instance means nothing to %s", c.path)
		}
		name := ctx.String(instanceOption.name)
		return meant(&name)
	}
	if !takes {
		return instance{}, nil
	}
	return meant(nil)
}

// meant is the instance that a flag names, or without one, nil, the variable.
func meant(flag *string) (instance, error) {
	if flag != nil {
		if err := config.CheckInstance(*flag); err != nil {
			return instance{}, usage("", "--instance: %w", err)
		}
		return instance{*flag, true}, nil
	}
	name := os.Getenv(instanceVariable)
	if name == "" {
		return instance{}, nil
	}
	if err := config.CheckInstance(name); err != nil {
		return instance{}, &failure{code: exitConfig, err: fmt.Errorf("%s: %w", instanceVariable, err)}
	}
	return instance{name: name}, nil
}

// lookupEnv is os.LookupEnv for settings: where a flag names the instance, variables do not say where it is.
func (i instance) lookupEnv(name string) (string, bool) {
	if i.isFlag && slices.Contains([]string{"BULLY_CONFIG", "BULLY_SOCKET", "BULLY_STATE_DIR"}, name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// socket is where the agent answers: at the path that --socket gives, or without that, nil, where the environment says.
func (i instance) socket(flag *string) string {
	if flag != nil {
		return *flag
	}
	if path, _ := i.lookupEnv("BULLY_SOCKET"); path != "" {
		return path
	}
	return config.DefaultSocket(os.LookupEnv, i.name)
}

// instancesHere offers the names of the system's agents that have one.
func instancesHere(*typed) (all []suggestion) {
	sockets := config.InstanceSockets()
	for _, name := range slices.Sorted(maps.Keys(sockets)) {
		if config.CheckInstance(name) == nil { // else the agent without a name, or a directory that is no agent's
			all = append(all, suggestion{name, sockets[name]})
		}
	}
	return all
}

// namingInstances adds to an error about an agent that is not there which others are, as far as this user may see: an
// instance whose name was left out or has a slip, or the system's, which a user does not reach.
func (c *call) namingInstances(err error) error {
	switch {
	case c.IsSet(socketOption.name) || !errors.Is(err, control.ErrUnreachable):
		return err
	case c.socketPath() != config.DefaultSocket(os.LookupEnv, c.instance.name):
		return err // BULLY_SOCKET led elsewhere
	case c.instance.name == "":
		return withOthers(err, os.Geteuid() == 0, config.Running(), c.service())
	}
	here := config.Instances()
	if slices.Contains(here, c.instance.name) {
		return withService(err, c.service())
	}
	hint := fmt.Sprintf("there is no instance %s on this host, nor any other", c.instance.name)
	if len(here) > 0 {
		hint = fmt.Sprintf("there is no instance %s on this host: expected %s", c.instance.name, oneOf(here))
	}
	return &failure{code: exitCode(err), err: err, hint: hint}
}

// withOthers says where agents of this host answer, when the one that was meant does not. The sockets of the system's are
// root's and their group's; "" is the agent without a name. u is the unit of the one that was meant, nil for none.
func withOthers(err error, isRoot bool, running []string, u *unit.Unit) error {
	names := slices.DeleteFunc(slices.Clone(running), func(name string) bool { return name == "" })
	hint := ""
	switch {
	case len(names) > 0 && (isRoot || !slices.Contains(running, "")):
		hint = fmt.Sprintf("there is an agent of instance %s: name it, %s -i %s", oneOf(names), program, names[0])
		if !isRoot {
			hint += "; the system's agents answer root and the group of their socket: sudo " + program + " -i " + names[0]
		}
	case slices.Contains(running, "") && !isRoot:
		hint = "an agent of the system's is here, and answers root and the group of its socket: sudo " + program
	default:
		return withService(err, u)
	}
	return &failure{code: exitCode(err), err: err, hint: hint}
}

// withService says where to read why an agent that is a service does not run; u is nil where it is none.
func withService(err error, u *unit.Unit) error {
	if u == nil {
		return err
	}
	name := strings.TrimSuffix(u.Name, ".service")
	hint := fmt.Sprintf("journalctl -u %s -n 5 says how it ended; systemctl start %s starts it", name, name)
	return &failure{code: exitCode(err), err: err, hint: hint}
}
