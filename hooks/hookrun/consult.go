package hookrun

import (
	"io"
	"os"
	"runtime"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// vacatePause is between two looks at what hangs of a question. Arbitrary: nobody waits for it but the next run.
const vacatePause = time.Second

// consult runs a command that answers a question, contained as hooks are: in a process group of its own, which is dead when
// this is told unless it hangs in the kernel. What it prints is read and forgotten, but for the answer.
func (h *Hands) consult(e hooks.Consult, leash *run.Leash, socket string) {
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	answer, complaint, out := &run.Head{Most: e.Most}, &run.Tail{}, run.Silent()
	if e.Most > 0 {
		out.Copy = map[string]io.Writer{"stdout": answer, "stderr": complaint}
	}
	p, end := run.Once(leash, e.Command, hooks.CleanEnviron(os.Getenv, append(e.About, "BULLY_SOCKET="+hooks.Safe(socket))...), nil, out)
	said, _ := complaint.Bytes()
	if len(said) == 0 {
		said, _ = out.Tail()
	}
	isThere := func() bool { return p != nil && end.Err != nil && len(run.Living(p.Group)) > 0 }
	hangs := isThere()
	h.loop.Post(hooks.Consulted{Lane: e.Lane, Seq: e.Seq, Hangs: hangs, Reply: hooks.Reply{Err: end.Err, Said: run.LastLine(said), Text: answer.Bytes()}})
	if !hangs {
		return
	}
	for isThere() {
		select {
		case <-time.After(vacatePause):
		case <-h.ctx.Done():
			return
		}
	}
	h.loop.Post(hooks.Consulted{Lane: e.Lane, Seq: e.Seq})
}

// AwaitQuestions gives commands a moment for their end that were to answer questions, and that Lanes have told to end: they would
// outlive this process. It is for the end of all.
func (h *Hands) AwaitQuestions(patience time.Duration) {
	h.hurry()
	ended := make(chan struct{})
	go func() { h.consulting.Wait(); close(ended) }()
	run.Within(ended, patience)
}
