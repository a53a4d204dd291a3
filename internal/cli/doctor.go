package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/doctor"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/vip"
)

var doctorCommand = command{
	name: "doctor", usage: "look at this host from inside, and as the others see it",
	about: `Takes some seconds. It has the agent ask up to 16 members what they see of this host, time writes to its state directory, and
		compare clocks, versions and settings. It looks at hooks, keys, socket and the clock's rate itself. One line for each thing, ok, warn or
		FAIL, and below what to do. Exits 1 if there is a FAIL. Where no agent answers, it says what keeps one from starting here, as config check does.`,
	examples: []string{program + " doctor", program + " doctor --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		lines, err := c.examine()
		if errors.Is(err, control.ErrUnreachable) && !c.IsSet(socketOption.name) {
			c.report(c.startRefusal()) // before the error, whose hint says how to go on
		}
		if err != nil {
			return err
		}
		if c.Bool("json") {
			err = c.printJSON(lines)
		} else {
			err = c.print(c.doctorText(lines))
		}
		if err == nil && doctor.Worst(lines) == doctor.Fail {
			err = outcome(exitNo)
		}
		return err
	},
}

// doctorPatience is more than an agent takes that asks two rounds of others, none of which answers.
const doctorPatience = 30 * time.Second

// examine gives what the agent finds, and what this process sees by itself.
func (c *call) examine() ([]doctor.Line, error) {
	ctx, cancel := context.WithTimeout(c.Context.Context, doctorPatience)
	defer cancel()
	client := c.client()
	found, err := client.Examine(ctx)
	if err != nil {
		return nil, err
	}
	lines := append(doctor.Judge(found), deviceLines(found.Devices)...)
	lines = append(lines, rateLines()...)
	hooks, err := client.Hooks(ctx)
	if err != nil {
		return nil, err
	}
	lines = append(lines, hookLines(hooks)...)
	keys, err := client.Keys(ctx)
	if err != nil {
		return nil, err
	}
	lines = append(lines, keyLines(keys, time.Now())...)
	lines = append(lines, c.sandboxLines(keys.UID)...)
	return append(lines, socketLine(c.socketPath())), nil
}

// startRefusal says why an agent that does not answer would not start either; nil: nothing is known to keep it from that.
func (c *call) startRefusal() error {
	cfg, err := config.Load(c.sourceHere())
	if err != nil {
		return err
	}
	if err := errors.Join(c.checkHere(cfg), checkState(cfg)); err != nil {
		return err
	}
	if f, is := forbiddenAddress(c.service(), cfg); is {
		return &failure{code: exitConfig, err: errors.New(f.Text), hint: f.Do}
	}
	return nil
}

// rateLines looks at the clock in this process, and says something only if its rate is wrong: the sandbox of the agent's
// service (ProtectClock), or of a container, may refuse adjtimex.
func rateLines() []doctor.Line {
	var x unix.Timex // its Modes are 0: nothing is set
	if _, err := unix.Adjtimex(&x); err != nil {
		return nil
	}
	return doctor.ClockRate(int64(x.Tick), int64(x.Freq))
}

// deviceLines looks for the interfaces that resources name.
func deviceLines(names []string) (lines []doctor.Line) {
	for _, name := range names {
		if gone := (*vip.Complaint)(nil); errors.As(vip.Look(name), &gone) && gone.Class == vip.Absent {
			lines = append(lines, doctor.Device(gone.What, gone.Remedy))
		}
	}
	return lines
}

// hookLines looks at the commands as the agent does; an agent that has given up its rights has not.
func hookLines(all []control.HookSetting) (lines []doctor.Line) {
	configured := 0
	for _, h := range all {
		if h.Shell != "" || len(h.Argv) > 0 {
			configured++
		}
		switch {
		case h.Problem != "":
			lines = append(lines, doctor.Line{Level: doctor.Fail, Check: "hooks", Text: h.Event + ": " + h.Problem,
				Do: "mend the path or its rights; bully-agent config check says the same before a start"})
		case h.Last != nil && !h.Last.OK:
			lines = append(lines, doctor.Line{Level: doctor.Warn, Check: "hooks", Text: h.Event + " failed when it ran last: " + h.Last.Error,
				Do: "see bully-agent hooks log"})
		}
	}
	if len(lines) == 0 {
		lines = append(lines, doctor.Line{Level: doctor.OK, Check: "hooks", Text: fmt.Sprintf("%d of %d set", configured, len(all))})
	}
	return lines
}

// keyLines looks at the file of the keys, if this process may.
func keyLines(k control.Keys, now time.Time) []doctor.Line {
	if k.Insecure || k.File == "" || len(k.Keys) == 0 {
		return []doctor.Line{{Level: doctor.Warn, Check: "key", Text: "no key is used: every host that reaches the port can join, lead, and answer here",
			Do: key.HowToGet(cmp.Or(k.File, key.DefaultPath)) + "; only where something below encrypts and authenticates is it needless"}}
	}
	ring, err := key.Read(k.File, uint32(max(k.UID, 0)))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []doctor.Line{{Level: doctor.OK, Check: "key", Text: k.File + " was not looked at: run doctor as root"}}
	case err != nil:
		return []doctor.Line{keyFailure(err)}
	}
	var lines []doctor.Line
	for _, one := range ring {
		lines = append(lines, doctor.KeyAge(one.ID.String(), one.Made, now))
	}
	return lines
}

// keyFailure sets what to do apart from what is wrong.
func keyFailure(err error) doctor.Line {
	first, _, _ := strings.Cut(err.Error(), "\n")
	text, do, _ := strings.Cut(first, "; hint: ")
	return doctor.Line{Level: doctor.Fail, Check: "key", Text: text, Do: cmp.Or(do, "mend the file") + ": the next start and reload need it"}
}

// socketLine: the client has spoken with the agent, and so has looked at who listens.
func socketLine(path string) doctor.Line {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return doctor.Line{Level: doctor.Warn, Check: "socket", Text: err.Error(), Do: "restart the agent: the socket's name is gone"}
	case info.Mode().Perm()&0o002 != 0:
		return doctor.Line{Level: doctor.Fail, Check: "socket", Text: fmt.Sprintf("%s may be used by everybody (mode %04o)", path, info.Mode().Perm()),
			Do: "chmod o-rwx " + path}
	}
	return doctor.Line{Level: doctor.OK, Check: "socket", Text: fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm())}
}

// doctorText has a line for each thing, and what to do below it.
func (c *console) doctorText(lines []doctor.Line) string {
	var b strings.Builder
	for _, l := range lines {
		level := fmt.Sprintf("%-4s", l.Level)
		level = c.painted(map[doctor.Level]colour{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}[l.Level], level)
		fmt.Fprintf(&b, "%s  %-10s  %s\n", level, l.Check, strings.ReplaceAll(l.Text, "\n", " "))
		if l.Do != "" {
			fmt.Fprintf(&b, "%18s→ %s\n", "", l.Do)
		}
	}
	return b.String()
}
