package lab

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
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
		pending := map[string]verdict.Record{} // node → the begin of a lose hook that has not said that it ended
		for lines := bufio.NewScanner(fifo); lines.Scan(); {
			r, err := parseLine(lines.Text())
			if err != nil {
				complain(err)
				continue
			}
			for _, r := range complete(pending, r) {
				j.add(r)
			}
		}
	}()
	return e, nil
}

// complete makes of the end of a hook's process the end that the hook did not tell; a hook that did has ended before. And
// one that was ended before it could tell of its begin tells of its end alone: it had begun.
func complete(pending map[string]verdict.Record, r verdict.Record) []verdict.Record {
	begun, ok := pending[r.Node]
	switch r.What {
	case verdict.Losing:
		pending[r.Node] = r
	case verdict.Lost:
		delete(pending, r.Node)
		if !ok || begun.Epoch != r.Epoch {
			begun = r
			begun.What = verdict.Losing
			return []verdict.Record{begun, r}
		}
	case isOver:
		if !ok || begun.Epoch.Counter != r.Epoch.Counter {
			return nil
		}
		delete(pending, r.Node)
		begun.What = verdict.Lost
		return []verdict.Record{begun}
	}
	return []verdict.Record{r}
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
func (e *ear) tell(node string, what verdict.What, note string) {
	fmt.Fprintf(e.fifo, "%s 1\n", verdict.NoteWords(node, what, note))
}

// tellOver adds that no lose hook of node runs any more, the last one having been for that epoch.
func (e *ear) tellOver(node, counter string) {
	fmt.Fprintf(e.fifo, "%s %s %s - - 1\n", node, eventOver, counter)
}

const (
	eventOver = "over" // no lose hook runs any more; no hook and no record has this name

	isOver verdict.What = 0 // of its record
)

// hookCommand is the hook: one printf of a shell, a millisecond in all. 1<> opens the FIFO for reading too, so that the
// hook does not hang if the lab is gone.
func hookCommand(path string) string { return printCommand(path, verdict.Begin) }

// loseCommand is the lose hook, which prints when it begins and when it ends, and takes so long between. That its agent
// may end it by TERM when the lease does is an end like any other; by KILL too, which its vigil sees.
func loseCommand(path string, takes time.Duration) string {
	end := printCommand(path, verdict.End)
	command := "exec 9<>'" + path + `'."$BULLY_NODE"; echo "$BULLY_EPOCH" >&9; ` +
		"end() { trap '' TERM; " + end + "; }; trap 'end; exit 143' TERM; " + printCommand(path, verdict.Begin) + "; "
	if takes > 0 {
		command += fmt.Sprintf("sleep %.3f; ", takes.Seconds())
	}
	return command + "end"
}

func printCommand(path string, phase verdict.Phase) string {
	return `printf '%s\n' "` + verdict.HookWords(phase) + ` ${BULLY_ATTEMPT:-1}" 1<> '` + path + `'`
}

// parseLine reads what a hook or tell printed; the last word is the attempt.
func parseLine(line string) (verdict.Record, error) {
	if f := strings.Split(line, " "); len(f) > 2 && f[1] == eventOver {
		counter, err := strconv.ParseUint(f[2], 10, 64)
		return verdict.Record{Node: f[0], What: isOver, Epoch: verdict.Epoch{Counter: counter}}, err
	}
	r, attempt, err := verdict.ParseLine(line)
	if err != nil || !r.What.IsHook() {
		return r, err
	}
	if r.Attempt, err = strconv.Atoi(attempt); err != nil {
		return r, fmt.Errorf("read hook line %q: attempt %q is no number", line, attempt)
	}
	return r, nil
}
