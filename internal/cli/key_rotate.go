package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
)

var keyRotateCommand = command{
	name: "rotate", usage: "take the next step of replacing the key",
	about: `Three steps, all on the same host, each followed by copying the file to the others as it says. A new key is added, and all
		hosts come to accept it; it begins; the old one is removed. No step changes a leader or shuts out a host that is one step
		behind, so the hosts may be done in any order. If a host is not ready for the next step, nothing changes, and the exit code
		is 6. A host that is gone for good is left out by --without.`,
	examples: []string{program + " key rotate", program + " key rotate --without delta"},
	options: append([]option{
		{name: "without", value: "HOST", offer: otherMembers, usage: "go on, though this host is not ready; it is shut out until it has the file", many: true},
		ownerOption, socketOption}, keyOptions...),
	action: rotateKey,
}

func rotateKey(c *call) error {
	k, err := c.keys()
	if err != nil {
		return err
	}
	if k.agent == nil {
		_, err := c.client().Keys(c.Context.Context) // says why
		return errors.Join(err)
	}
	if err := k.isInUse(); err != nil {
		return err
	}
	step, next, err := k.ring.Next(time.Now())
	if err != nil {
		return refusedKeys(program+" key revoke ID removes one", "%s: %w", k.path, err)
	}
	without := c.StringSlice("without")
	if err := c.awaitSessions(&k, step, without); err != nil {
		return err
	}
	if err := k.unready(step, k.others(without...)); err != nil {
		return err
	}
	if err := c.replaceKeys(k, next); err != nil {
		return err
	}
	return c.print(stepText(step, k.ring, next) + k.carryText("carry it to the other hosts, in any order:") + afterText(step))
}

// sessionPatience is longer than a session lives after another has taken its place.
const sessionPatience = 2 * time.Minute

// awaitSessions waits while nothing is in the way but sessions under the old key, which end
// of themselves.
func (c *call) awaitSessions(k *keys, step key.Step, without []string) error {
	progress := c.progress("waiting for sessions under the old key")
	defer progress("")
	for end := time.Now().Add(sessionPatience); time.Now().Before(end); time.Sleep(time.Second) {
		unready := k.ring.Unready(step, k.others(without...))
		if len(unready) == 0 || slices.ContainsFunc(unready, func(u key.Unready) bool { return !u.Soon }) {
			return nil
		}
		progress(fmt.Sprintf("of %d hosts", len(unready)))
		answer, err := c.client().Keys(c.Context.Context)
		if err != nil {
			return err
		}
		k.agent = &answer
	}
	return nil
}

// refusedKeys is an error after which nothing has changed.
func refusedKeys(hint, format string, args ...any) error {
	return &failure{code: exitRefused, err: fmt.Errorf(format, args...), hint: hint}
}

// isInUse reports why the agent's keys cannot be replaced by way of the file.
func (k keys) isInUse() error {
	switch {
	case k.agent.Insecure:
		return refusedKeys("restart it without --insecure", "the agent runs with --insecure and uses no key")
	case len(k.agent.Keys) == 0:
		return refusedKeys("restart it", "the agent uses no key, though there is one in %s", k.path)
	}
	return k.isTaken()
}

// isTaken reports whether the agent has what is in the file.
func (k keys) isTaken() error {
	switch ids := parseIDs(k.agent.Keys); {
	case k.agent.File != k.path && !k.hasCredential():
		return refusedKeys("name that one with --key", "the agent has its keys from %s, and not from %s", k.agent.File, k.path)
	case !slices.Equal(ids, k.ring.IDs()):
		return refusedKeys(k.reload(), "the agent has %s, and %s has %s", idsText(ids), k.path, idsText(k.ring.IDs()))
	}
	return nil
}

// unready has a line for each host that is in the way.
func (k keys) unready(step key.Step, hosts []key.Host) error {
	var errs []error
	for _, u := range k.ring.Unready(step, hosts) {
		hint := k.carryTo(u.Name)
		if step == key.Add {
			hint = "a key is replaced from one host: go on there, or copy the file of one to all"
		}
		if strings.HasPrefix(u.Why, "it was not heard") {
			hint = "start its agent, or leave it out: " + program + " key rotate --without " + u.Name
		}
		if u.Soon {
			hint = "try again"
		}
		errs = append(errs, refusedKeys(hint, "%s is not ready: %s", u.Name, u.Why))
	}
	return errors.Join(errs...)
}

// replaceKeys changes the file, and has the agent read it.
func (c *call) replaceKeys(k keys, next key.Ring) error {
	if err := key.Replace(k.path, next); err != nil {
		return err
	}
	if k.agent == nil || k.hasCredential() {
		return nil
	}
	if err := c.client().Reload(c.Context.Context, false); err != nil {
		return fmt.Errorf("%s is changed, and then: reload: %w", k.path, err)
	}
	now, err := c.client().Keys(c.Context.Context)
	if err != nil {
		return fmt.Errorf("%s is changed, and then: %w", k.path, err)
	}
	if ids := parseIDs(now.Keys); !slices.Equal(ids, next.IDs()) {
		return fmt.Errorf("%s is changed, and the agent has %s all the same", k.path, idsText(ids))
	}
	return nil
}

func idsText(ids []key.ID) string {
	if len(ids) == 0 {
		return "none"
	}
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = id.String()
	}
	return strings.Join(text, " ")
}

func stepText(step key.Step, was, is key.Ring) string {
	what := map[key.Step]string{
		key.Add:     fmt.Sprintf("key %s was added, %s still begins", is[len(is)-1].ID, is[0].ID),
		key.Promote: fmt.Sprintf("key %s begins, %s is still accepted", is[0].ID, was[0].ID),
		key.Remove:  fmt.Sprintf("key %s was removed, %s is left", was[len(was)-1].ID, is[0].ID),
	}[step]
	return fmt.Sprintf("step %d of %d: %s\n", step, key.Steps, what)
}

func afterText(step key.Step) string {
	if step == key.Remove {
		return "then the old key is gone; " + program + " key status shows it\n"
	}
	return "then here again: " + program + " key rotate\n"
}

// carry is the command that brings the file to a host.
func (k keys) carry(host string) string {
	path, to := key.Quoted(k.path), host
	if strings.Contains(host, ":") {
		to = "[" + host + "]" // of IPv6
	}
	return fmt.Sprintf("scp -p %s %s:%s && ssh %s %s", path, to, path, host, k.reload())
}

// joined are the hosts that this host's own configuration names, in join or in hosts, except itself.
func (k keys) joined() (hosts []string) {
	if k.agent == nil {
		return nil
	}
	for _, entry := range k.agent.Join {
		host := hostOf(entry)
		isSelf := slices.ContainsFunc(k.agent.Hosts, func(h control.HostKeys) bool { return h.Self && (h.Name == host || hostOf(h.Addr) == host) })
		if !isSelf && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	for _, h := range k.agent.Hosts {
		if h.Listed && !h.Self && !slices.Contains(hosts, h.Name) && !slices.Contains(hosts, hostOf(h.Addr)) {
			hosts = append(hosts, h.Name)
		}
	}
	return hosts
}

// unvouched are the members that this host's configuration does not name, with their addresses. Whoever
// has stolen a key is a member, under any name.
func (k keys) unvouched(joined []string) (members []string) {
	if k.agent == nil {
		return nil
	}
	for _, h := range k.agent.Hosts {
		if at := hostOf(h.Addr); !h.Self && !slices.Contains(joined, h.Name) && !slices.Contains(joined, at) {
			members = append(members, h.Name+" ("+at+")")
		}
	}
	return members
}

// hostOf is host:port without the port.
func hostOf(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return hostPort
}

// carryTo is carry for a member, or what to look at first.
func (k keys) carryTo(member string) string {
	joined := k.joined()
	for _, h := range k.agent.Hosts {
		at := hostOf(h.Addr)
		switch {
		case h.Name != member:
		case slices.Contains(joined, h.Name):
			return k.carry(h.Name)
		case slices.Contains(joined, at):
			return k.carry(at)
		default:
			return "join does not name it: only if you know " + at + ": " + k.carry("HOST")
		}
	}
	return k.carry("HOST")
}

// carryText has the commands for the hosts that the operator has named in join. No command names a
// host that only says that it is a member: it would bring a new key to whoever stole the last.
func (k keys) carryText(head string) string {
	text := ""
	if k.hasCredential() {
		text = "restart the agent, which has its keys from systemd: " + k.reload() + "\n"
	}
	hosts := k.joined()
	others := k.unvouched(hosts)
	if len(hosts)+len(others) > 0 {
		text += head + "\n"
		for _, host := range hosts {
			text += "  " + k.carry(host) + "\n"
		}
	}
	if len(others) > 0 {
		text += "join does not name " + strings.Join(others, ", ") + ": only to hosts that you know:\n  " + k.carry("HOST") + "\n"
	}
	return text
}

var keyRevokeCommand = command{
	name: "revoke", usage: "remove a key at once, if it was stolen", args: "ID", maxArgs: 1, offer: keyIDs,
	about: `Does not wait for other hosts: sessions under the key end within a second. If it was the only one, a new one takes its
		place. Other hosts hear this one again when they have the file, too. Until then each side acts as if the other were gone:
		copy it to all at once, as it says.`,
	examples: []string{program + " key revoke 4f1c9a02"},
	options:  append([]option{ownerOption, socketOption}, keyOptions...),
	action:   revokeKey,
}

func revokeKey(c *call) error {
	if c.NArg() == 0 {
		return usage("see "+program+" key status", "ID is missing: expected the id of a key")
	}
	id, err := key.ParseID(c.Args().First())
	if err != nil {
		return usage("see "+program+" key status", "ID is no id of a key: expected eight hexadecimal digits")
	}
	k, err := c.keys()
	if err != nil {
		return err
	}
	if _, found := k.ring.Find(id); !found {
		return refusedKeys("see "+program+" key status", "there is no key %s in %s, which has %s", id, k.path, idsText(k.ring.IDs()))
	}
	if k.agent != nil && k.agent.File != k.path && !k.hasCredential() && !k.agent.Insecure {
		return k.isTaken()
	}
	next := k.ring.Without(id, time.Now())
	if err := c.replaceKeys(c.withoutIdleAgent(k), next); err != nil {
		return err
	}
	text := fmt.Sprintf("key %s was revoked, %s begins", id, next[0].ID)
	if len(k.ring) == 1 {
		text = fmt.Sprintf("key %s was revoked, %s was made and begins", id, next[0].ID)
	}
	text += "\n" + k.carryText("hosts that have "+id.String()+" still take it, and those without "+next[0].ID.String()+" do not hear this one; at once:")
	if k.agent == nil {
		text += "no agent answers here; copy the file to all other hosts, and reload there: " + k.carry("HOST") + "\n"
	}
	return c.print(text)
}

// withoutIdleAgent forgets an agent that uses no key: it has nothing to reload.
func (c *call) withoutIdleAgent(k keys) keys {
	if k.agent != nil && len(k.agent.Keys) == 0 {
		k.agent = (*control.Keys)(nil)
	}
	return k
}
