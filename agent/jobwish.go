package agent

import (
	"context"
	"net/http"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
)

// wish is what a person waits for.
type wish struct {
	ctx     context.Context // ends when the person waits no more
	done    func(error)     // is called once, if anybody waits
	isAsked bool            // the scheduler knows of it, and not that nobody waits
}

// isStillWished looks at a wish when its turn comes, and drops one that nobody
// waits for any more.
func (j *jobDesk) isStillWished(token uint64) bool {
	w := j.wishes[token]
	w.isAsked = w.ctx.Err() == nil
	if !w.isAsked {
		delete(j.wishes, token)
	}
	return w.isAsked
}

// withdrawn gives the token of a wish that nobody waits for any more, once.
func (j *jobDesk) withdrawn() (token uint64, ok bool) {
	for token, w := range j.wishes {
		if w.isAsked && w.ctx.Err() != nil {
			w.isAsked = false
			return token, true
		}
	}
	return 0, false
}

// ask passes a wish on.
func (j *jobDesk) ask(name, job string, fromNow bool, w *wish) {
	if leads, _ := j.around.leads(); name == "job-run" && !leads {
		w.done(&control.APIError{Status: http.StatusConflict, Code: "not_leader", Message: election.ErrNotLeader.Error(),
			Hint: j.around.whereToAsk()})
		return
	}
	if !j.isRecovered {
		w.done(&control.APIError{Status: http.StatusConflict, Code: "busy", Message: "a job of this agent's last run has not ended",
			Hint: "try again when that has ended; see status"})
		return
	}
	j.tokens++
	j.wishes[j.tokens] = w
	if name == "job-run" {
		j.note(jobs.Ask{Job: job, Token: j.tokens})
	} else {
		j.note(jobs.SetPaused{Job: job, Paused: name == "job-pause", FromNow: fromNow, Token: j.tokens})
	}
}
