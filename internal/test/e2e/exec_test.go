package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// command is what exec and hold run in these tests: it leaves one process in a
// session of its own and one orphan, and says every few milliseconds that it is
// alive, and whose environment it has. All of it bears the LAN's mark.
func (l *lan) command(trap string) []string {
	script := trap + `setsid sleep 1000 & (sleep 1000 &); while :; do ` +
		`date "+$BULLY_NODE ` + isAlive.Token() + ` $BULLY_EPOCH $BULLY_EPOCH_OWNER - %s%N" >>` + l.journal.path +
		`; sleep 0.02; done`
	return []string{"env", l.mark(), "sh", "-c", script}
}

func (l *lan) mark() string { return "E2E_COMMAND=" + string(l.net.Switch()) }

// marked lists the processes of these commands that run. A zombie has no
// environment.
func (l *lan) marked() (pids []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(l.mark()+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// holder is an exec or hold on a host.
type holder struct {
	*process
	host *host
	log  string
}

func (h *host) run(words ...string) *holder {
	t := h.lan.t
	t.Helper()
	n := &holder{host: h, log: filepath.Join(h.dir, fmt.Sprintf("holder%d", time.Now().UnixNano()))}
	log, err := os.Create(n.log)
	must(t, err)
	defer log.Close()
	cmd := h.command(append([]string{binary}, words...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "BULLY_SOCKET=" + h.socket()}
	must(t, cmd.Start())
	n.process = &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		n.err = cmd.Wait()
		close(n.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-n.done
	})
	return n
}

// exits waits for the end.
func (n *holder) exits(want int) {
	t := n.host.lan.t
	t.Helper()
	select {
	case <-n.done:
	case <-time.After(patience):
		t.Fatalf("%v has not ended; it said: %s", n.cmd.Args, n.words())
	}
	if got := n.cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("%v exited with %d, want %d; it said: %s", n.cmd.Args[4:], got, want, n.words())
	}
}

func (n *holder) words() string {
	text, _ := os.ReadFile(n.log)
	return strings.TrimSpace(string(text))
}

// lives waits until the command on h has shown itself count times in its present
// epoch.
func (l *lan) lives(h *host, count int) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("the command runs on %s", h), patience, func() error {
		begun, seen := l.journal.last(h, becomeBegin).Epoch, 0
		for _, r := range l.journal.read() {
			if r.Node == h.name && r.What == isAlive && r.Epoch == begun {
				seen++
			}
		}
		if seen < count {
			return fmt.Errorf("seen %d times in epoch %d", seen, begun.Counter)
		}
		return nil
	})
}

// noCommandRuns waits until nothing of the command is left.
func (l *lan) noCommandRuns() {
	l.t.Helper()
	l.eventually("nothing is left of the command", patience, func() error {
		if left := l.marked(); len(left) > 0 {
			return fmt.Errorf("processes %v run", left)
		}
		return nil
	})
}

// aloneInTurn fails the test if a command showed itself on a host after another
// had begun to lead.
func (l *lan) aloneInTurn() {
	l.t.Helper()
	leader := ""
	for _, r := range l.journal.read() {
		switch {
		case r.What == becomeBegin:
			leader = r.Node
		case r.What == isAlive && r.Node != leader:
			l.t.Errorf("the command runs on %s in epoch %d while %s leads", r.Node, r.Epoch.Counter, leader)
			return
		}
	}
}

// newQuorumLAN is three hosts, of which never two lead, with some more time to end
// things: what is tested is the order, not how busy this machine is.
func newQuorumLAN(t *testing.T) *lan {
	l := newLAN(t, 3, "--expect", "3")
	l.hasRoomToLetGo()
	return l
}

// Whatever happens to the agent of a leader, what exec and hold run there has ended
// before another leads. Nothing of it is left.
func TestCommandEndsWithTheLease(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	faults := map[string]func(l *lan, h *host){
		"agent killed":  func(_ *lan, h *host) { h.kill() },
		"agent stopped": func(_ *lan, h *host) { h.pause() },
		"host cut off":  func(l *lan, h *host) { l.cut(h) },
	}
	for _, program := range []string{"exec", "hold"} {
		for name, fault := range faults {
			t.Run(program+", "+name, func(t *testing.T) {
				t.Parallel()
				l := newQuorumLAN(t)
				if name == "agent stopped" {
					l.mayOverlap("a stopped agent cannot run its lose hook; the command has ended all the same")
				}
				best, next := l.best(), l.next()
				l.start()
				l.agreeOn(best)
				n := best.run(append([]string{program, "--grace", "200ms", "--"}, l.command("")...)...)
				l.lives(best, 3)
				fault(l, best)
				l.agreeOn(next, l.except(best)...)
				l.noCommandRuns()
				l.aloneInTurn()
				switch {
				case program == "exec":
					n.exits(124)
				case name == "agent killed":
					n.exits(4)
				}
			})
		}
	}
}

// Whoever kills exec and hold themselves, with a command that does not care for TERM: it
// is ended.
func TestNothingIsLeftBehind(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for _, program := range []string{"exec", "hold"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 1)
			h := l.best()
			l.start()
			l.agreeOn(h)
			n := h.run(append([]string{program, "--grace", "1h", "--"}, l.command("trap '' TERM; ")...)...) // it has the rest of the lease
			l.lives(h, 1)
			must(t, n.cmd.Process.Kill())
			l.noCommandRuns()
		})
	}
}

// exec or hold is stopped, for many times the lease: the command goes on, since its holder
// follows the lease. A planned hand-over ends it and waits for that, and whoever was stopped
// learns of it.
func TestAStoppedHoldChangesNothing(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for _, program := range []string{"exec", "hold"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			l := newQuorumLAN(t)
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			n := best.run(append([]string{program, "--grace", "30s", "--"}, l.command("trap 'sleep 1; exit 0' TERM; ")...)...)
			l.lives(best, 1)
			must(t, n.cmd.Process.Signal(unix.SIGSTOP))
			l.lives(best, 100) // which takes it 2 s at least
			if out, code := best.cli("step-down", "--for", "1h"); code != 0 {
				t.Errorf("step-down: exit code %d: %s", code, out)
			}
			l.agreeOn(next)
			l.noCommandRuns()
			l.aloneInTurn()
			must(t, n.cmd.Process.Signal(unix.SIGCONT))
			if program == "exec" {
				n.exits(124)
				return
			}
			l.eventually("hold has learned of it", patience, func() error {
				if !strings.Contains(n.words(), "does not lead any more") {
					return fmt.Errorf("it says %s", n.words())
				}
				return nil
			})
			must(t, n.cmd.Process.Signal(unix.SIGTERM))
			n.exits(0)
		})
	}
}

// A holder that does nothing more is killed, and what it held: a planned hand-over waits for
// that, and no command runs into the next leadership.
func TestAStoppedHolderIsKilled(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newQuorumLAN(t)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	n := best.run(append([]string{"exec", "--grace", "300ms", "--"}, l.command("")...)...)
	l.lives(best, 1)
	if got := signalSome(best, func(words []string) bool { return len(words) > 1 && words[1] == "holder" }, unix.SIGSTOP); len(got) != 1 {
		t.Fatalf("%d holders", len(got))
	}
	best.cli("step-down", "--for", "1h")
	l.agreeOn(next)
	l.noCommandRuns()
	l.aloneInTurn()
	n.exits(exitFailure)
}

const exitFailure = 125 // of exec and hold themselves

// exec or hold is killed, and what it ran goes on for a moment, deaf to TERM: a planned
// hand-over waits for that, too.
func TestHandOverWaitsForACommandWhoseHoldWasKilled(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for _, program := range []string{"exec", "hold"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			l := newQuorumLAN(t)
			best, next := l.best(), l.next()
			l.start()
			l.agreeOn(best)
			n := best.run(append([]string{program, "--grace", "30s", "--"}, l.command("trap '' TERM; ")...)...)
			l.lives(best, 3)
			must(t, n.cmd.Process.Kill())
			if out, code := best.cli("step-down", "--for", "1h"); code != 0 {
				t.Errorf("step-down: exit code %d: %s", code, out)
			}
			l.agreeOn(next)
			l.noCommandRuns()
			l.aloneInTurn()
		})
	}
}

// The same hold on every host: the command runs where the leader is, and moves
// with it, by plan and without.
func TestHoldFollowsTheLeader(t *testing.T) {
	t.Parallel()
	l := newQuorumLAN(t)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	var holders []*holder
	for _, h := range l.hosts {
		holders = append(holders, h.run(append([]string{"hold", "--"}, l.command("trap 'sleep 1.5; exit 0' TERM; ")...)...))
	}
	l.lives(best, 3)
	if _, code := best.cli("step-down", "--for", "1h"); code != 0 {
		t.Errorf("step-down: exit code %d", code)
	}
	l.agreeOn(next)
	l.lives(next, 3) // after the 1.5 s that the other needed: a hand-over waits
	next.kill()
	l.agreeOn(l.hosts[0], l.except(next)...)
	l.lives(l.hosts[0], 3)
	holders[1].exits(4)
	l.aloneInTurn()
	for _, n := range []*holder{holders[0], holders[2]} {
		must(t, n.cmd.Process.Signal(unix.SIGTERM))
	}
	holders[2].exits(0) // it ran nothing
	holders[0].exits(0) // what its command said
	l.noCommandRuns()
}

// One line in the crontab of every host: one of them runs it.
func TestExecRunsOnOneHost(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	l.agreeOn(l.best())
	said := ""
	for _, h := range l.hosts {
		out, code := h.cli("exec", "--", "sh", "-c", "echo $BULLY_NODE of $BULLY_LEADER")
		if said += out; code != 0 {
			t.Errorf("exec on %s: exit code %d", h, code)
		}
	}
	if best := l.best().name; said != best+" of "+best+"\n" {
		t.Errorf("the hosts said %q", said)
	}
}

// At a terminal the command reads what is typed, and a key that means a signal
// reaches it once.
func TestExecAtATerminal(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.best()
	l.start()
	l.agreeOn(h)
	term := h.terminal("exec", "--", "sh", "-c",
		`trap 'echo interrupted' INT; until test "$line" = end; do read line && echo "read $line"; done; exit 3`)
	term.press("first\n")
	term.shows("read first")
	term.press("\x03") // Ctrl-C
	term.shows("interrupted")
	term.press("\x1a") // Ctrl-Z, which does nothing: it would stop exec alone
	term.press("second\n")
	term.shows("read second")
	term.press("end\n")
	term.exits(3)
}

// In the background a command does not take what is typed for the shell.
func TestExecInTheBackgroundLeavesTheKeyboard(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.best()
	l.start()
	l.agreeOn(h)
	term := h.openTerminal("sh", "-ic", "set -m; "+binary+` exec -- sh -c 'while read l; do echo "stolen $l"; done; echo nothing to read; exec sleep 1' &
		wait; read l; echo "shell read $l"`)
	term.shows("nothing to read")
	term.press("one\n")
	term.shows("shell read one")
	term.exits(0)
}

// A terminal that goes away takes hold and its command with it.
func TestHoldEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.best()
	l.start()
	l.agreeOn(h)
	term := h.terminal(append([]string{"hold", "--"}, l.command("")...)...)
	l.lives(h, 1)
	must(t, term.keys.Close())
	term.exits(128 + 1) // the command's, which does not catch HUP
	l.noCommandRuns()
}

// terminal is a pseudoterminal (pty(7)) with a command of the binary.
type terminal struct {
	t      *testing.T
	keys   *os.File
	screen *bufio.Scanner
	cmd    *exec.Cmd
}

func (h *host) terminal(words ...string) *terminal {
	h.lan.t.Helper()
	return h.openTerminal(append([]string{binary}, words...)...)
}

// openTerminal is a terminal with any command.
func (h *host) openTerminal(words ...string) *terminal {
	t := h.lan.t
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("skipped: no pseudoterminal can be made:", err)
	}
	t.Cleanup(func() { keys.Close() })
	must(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer tty.Close()
	cmd := h.command(words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "BULLY_SOCKET=" + h.socket()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of standard input
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)                 // or whoever starts us under nohup has it ignored there too
	must(t, cmd.Start())
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // the screen then ends
	t.Cleanup(func() { late.Stop(); _ = cmd.Process.Kill() })
	return &terminal{t: t, keys: keys, screen: bufio.NewScanner(keys), cmd: cmd}
}

func (term *terminal) press(text string) {
	term.t.Helper()
	_, err := term.keys.WriteString(text)
	must(term.t, err)
}

// shows reads on until a line has the text. No line before it may tell of an
// interrupt.
func (term *terminal) shows(want string) {
	term.t.Helper()
	for term.screen.Scan() {
		line := term.screen.Text()
		if strings.Contains(line, want) {
			return
		}
		if strings.Contains(line, "interrupted") {
			term.t.Errorf("it was interrupted once more than Ctrl-C was pressed")
		}
	}
	term.t.Fatalf("the terminal does not show %q: %v", want, term.screen.Err())
}

func (term *terminal) exits(want int) {
	term.t.Helper()
	_ = term.cmd.Wait()
	if code := term.cmd.ProcessState.ExitCode(); code != want {
		term.t.Errorf("exit code %d, want %d", code, want)
	}
}
