package lab

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ear hears the agents' hooks. They print one line each into one FIFO, and the lab stamps a line when it arrives.
//
// One FIFO for all agents, because the kernel keeps the order in which lines of at most PIPE_BUF bytes were written:
// lines of two agents can never be seen in the wrong order, however late the reading goroutine runs. The start and
// end of a process take the same way (tell), so that an end cannot overtake the last words of its hooks.
type ear struct {
	path   string
	fifo   *os.File
	vigils []*vigil
	done   chan struct{} // closed when the reader has ended
}

// openEar makes the FIFO at path and adds to the journal what comes out of it, until close.
func openEar(path string, j *journal, complain func(error)) (*ear, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make fifo %s: %w", path, err)
	}
	// Open for both, so that neither this open nor a hook's waits for a partner, and no end of file comes.
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open fifo: %w", err)
	}
	e := &ear{path: path, fifo: fifo, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		pending := map[string]record{} // node → the begin of a lose hook that has not said that it ended
		for lines := bufio.NewScanner(fifo); lines.Scan(); {
			r, err := parseLine(lines.Text())
			if err != nil {
				complain(err)
				continue
			}
			if r, ok := complete(pending, r); ok {
				j.add(r)
			}
		}
	}()
	return e, nil
}

// complete makes of the end of a hook's process the end that the hook did not tell. A hook that did has ended before.
func complete(pending map[string]record, r record) (record, bool) {
	switch r.what {
	case losing:
		pending[r.node] = r
	case lost:
		delete(pending, r.node)
	case 0:
		begun, ok := pending[r.node]
		if !ok || begun.epoch.counter != r.epoch.counter {
			return r, false
		}
		delete(pending, r.node)
		begun.what = lost
		return begun, true
	}
	return r, true
}

// close ends the reader. The FIFO's name stays, for the directory it is in goes as a whole.
func (e *ear) close() {
	for _, v := range e.vigils {
		v.close()
	}
	e.fifo.Close()
	<-e.done
}

// tell adds something about node's process, in order with what its hooks say.
func (e *ear) tell(node, event, note string) {
	fmt.Fprintf(e.fifo, "%s %s 0 - %s 1\n", node, event, strings.ReplaceAll(note, " ", "_"))
}

// tellOver adds that no lose hook of node runs any more, the last one having been for that epoch.
func (e *ear) tellOver(node, counter string) {
	fmt.Fprintf(e.fifo, "%s %s %s - - 1\n", node, eventOver, counter)
}

const (
	eventBecome = "become-leader"
	eventLose   = "lose-leadership"

	// What the lose hook writes when it begins; the name itself is its end.
	eventLosing = eventLose + ".begin"

	// Ours; no hook has these names.
	eventStart = "start"
	eventExit  = "exit"
	eventOver  = "over" // no lose hook runs any more
)

// hookCommand is the hook: one printf of a shell, a millisecond in all. 1<> opens the FIFO for reading too, so that the
// hook does not hang if the lab is gone.
//
// The values are safe without care (README, Hooks) but for being empty, hence the dashes.
func hookCommand(path string) string { return printCommand(path, "") }

// loseCommand is the lose hook, which prints when it begins and when it ends, and takes so long between. That its agent
// may end it by TERM when the lease does is an end like any other; by KILL too, which its vigil sees.
func loseCommand(path string, takes time.Duration) string {
	end := printCommand(path, "")
	command := "exec 9<>'" + path + `'."$BULLY_NODE"; echo "$BULLY_EPOCH" >&9; ` +
		"end() { trap '' TERM; " + end + "; }; trap 'end; exit 143' TERM; " + printCommand(path, ".begin") + "; "
	if takes > 0 {
		command += fmt.Sprintf("sleep %.3f; ", takes.Seconds())
	}
	return command + "end"
}

func printCommand(path, phase string) string {
	return `printf '%s %s %s %s %s %s\n' "$BULLY_NODE" "$BULLY_EVENT` + phase +
		`" "$BULLY_EPOCH" "${BULLY_EPOCH_OWNER:--}" "${BULLY_CAUSE:--}" "${BULLY_ATTEMPT:-1}" 1<> '` + path + `'`
}

// parseLine reads what a hook or tell printed: node, event, counter, owner, cause, attempt. The end of a hook's process has no kind.
func parseLine(line string) (record, error) {
	f := strings.Split(line, " ")
	if len(f) != 6 {
		return record{}, fmt.Errorf("read hook line %q: %d words, expected node, event, epoch, owner, cause and attempt", line, len(f))
	}
	r := record{node: f[0], cause: strings.TrimPrefix(f[4], "-")}
	switch f[1] {
	case eventBecome:
		r.what = became
	case eventLosing:
		r.what = losing
	case eventLose:
		r.what = lost
	case eventOver: // its kind is for the ear to say
	case eventStart, eventExit:
		r.what, r.cause = started, strings.ReplaceAll(r.cause, "_", " ")
		if f[1] == eventExit {
			r.what = exited
		}
		return r, nil
	default:
		return record{}, fmt.Errorf("read hook line %q: unknown event %q", line, f[1])
	}
	counter, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("read hook line %q: epoch %q is no number", line, f[2])
	}
	if r.attempt, err = strconv.Atoi(f[5]); err != nil {
		return record{}, fmt.Errorf("read hook line %q: attempt %q is no number", line, f[5])
	}
	r.epoch = epoch{counter: counter, owner: strings.TrimPrefix(f[3], "-")}
	return r, nil
}
