package keeper

import (
	"encoding/json"
	"maps"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// How a keeper comes to run hooks, and to its end.

// phase is how far the life of a keeper has come.
type phase int

const (
	begun   phase = iota // no order yet
	opening              // it reads its settings, and waits for the keeper of an earlier life
	opened               // it has its settings; a clean-up may run
	running              // hooks run as they are ordered
	leaving              // the will is said
	closing              // what runs is ended
	resting              // the last files are written
	over
)

// means is what a keeper has once it is open; before, nothing.
type means struct {
	settings  Settings
	lock      *os.File // held for as long as this lives
	lanes     hooks.Lanes
	hands     *hookrun.Hands
	resources *resourcerun.Hands
}

// open begins with that, for an agent of this program.
func (k *keeper) open(theirs int) {
	k.phase = opening
	if err := sameVersion(theirs); err != nil {
		k.onOpened(means{}, err)
		return
	}
	go k.prepare()
}

// prepare reads the settings and waits for the keeper of an earlier life: a worker's.
func (k *keeper) prepare() {
	m, err := k.gather()
	k.post(func() { k.onOpened(m, err) })
}

func (k *keeper) gather() (m means, err error) {
	if m.settings, err = k.read(); err != nil {
		return m, err
	}
	s := m.settings
	waits := func(process int) { k.post(func() { k.say(report{Say: sayWaits, Process: process}) }) }
	if m.lock, err = lockFile(k.ctx, s.Dir, waits); err != nil {
		return m, err
	}
	m.hands, m.lanes, err = hookrun.Open(
		hookrun.Config{Config: s.Hooks, Dir: s.Dir, Socket: s.Socket, Logger: k.out.logger()},
		hookrun.Loop{Clock: now, Budget: s.Budget, Takeover: s.Takeover,
			Post: func(ev hooks.LaneEvent) { k.post(func() { k.step(ev) }) }})
	if err != nil {
		return m, err
	}
	m.resources = k.openResources(s)
	noteSelf(m.lock, s.Hooks)
	return m, shareOutput(s.Dir, s.Readers)
}

// onOpened begins to work with what there is. A keeper that has nothing ends.
func (k *keeper) onOpened(m means, err error) {
	if k.phase != opening {
		return // it is to end
	}
	if err != nil {
		k.say(report{Say: sayOpened, Version: version, Err: err.Error()})
		k.phase = closing
		return
	}
	k.phase = opened
	k.means = m
	k.step(hooks.Checking{Checks: k.settings.Checks})
	answer := report{Say: sayOpened, Version: version}
	if owed, ok := k.lanes.Owed(); ok {
		answer.Owed = &owed
	}
	k.say(answer)
}

// noteSelf writes for the next life of the agent who this is, and how long it may work.
// It does not matter much, so an error is none.
func noteSelf(lock *os.File, cfg hooks.Config) {
	text, err := json.Marshal(sidecar.Owner{Process: os.Getpid(), Patience: patienceWith(cfg)})
	if err == nil && lock.Truncate(0) == nil {
		_, _ = lock.WriteAt(text, 0)
	}
}

// reading is the settings' being read again. The orders behind it wait for that, since they may
// be about what has changed; but not long for a disk that hangs, not when the agent is to be
// judged, and only so many.
type reading struct {
	isOn    bool
	isStale bool      // it is to be done once more
	until   time.Time // orders are held until then; zero: they are not
	held    []order
}

// readPatience is how long orders wait for the settings. Arbitrary.
const readPatience = 500 * time.Millisecond

// holds reports whether the order has to wait, and keeps it then.
func (r *reading) holds(o order) bool {
	if r.until.IsZero() {
		return false
	}
	r.held = append(r.held, o)
	return true
}

// isFull reports whether no more is to wait.
func (r *reading) isFull() bool {
	members := 0
	for _, o := range r.held {
		members += len(o.Event.Members)
	}
	return len(r.held) >= maxHeld || members > maxWaitingMembers
}

// renew has what waits have the lease that the agent has renewed since.
func (r *reading) renew(to renewal) {
	for i := range r.held {
		switch o := &r.held[i]; {
		case o.Lease.IsZero():
		case o.Do == toLend:
			o.Lease = to.deadline
		default:
			o.Lease = to.silent()
		}
	}
}

// release obeys the orders that were held.
func (k *keeper) release() {
	held := k.reading.held
	k.reading.held, k.reading.until = nil, time.Time{}
	for _, o := range held {
		if !k.reading.holds(o) { // one of them may be to read again
			k.obey(o)
		}
	}
}

// reload has the settings of now be read.
func (k *keeper) reload() {
	r := &k.reading
	if r.isOn {
		r.isStale = true
		return
	}
	r.isOn, r.until = true, k.now.Add(readPatience)
	lock := k.lock
	go func() {
		next, err := k.read()
		if err == nil {
			noteSelf(lock, next.Hooks)
		}
		k.post(func() { k.onRead(next, err) })
	}()
}

// onRead takes the settings of now, from the next run on. If they cannot be read, those of
// before hold. Directory and bounds of the lease need a restart.
func (k *keeper) onRead(next Settings, err error) {
	isStale := k.reading.isStale
	k.reading.isOn, k.reading.isStale = false, false
	if err != nil {
		k.out.logger().Error("configuration not read by the keeper, which goes on with the last one", "err", err)
	} else {
		k.takeOn(next)
	}
	k.say(report{Say: sayAck})
	k.release()
	if isStale {
		k.reload()
	}
}

func (k *keeper) takeOn(next Settings) {
	jobs := maps.Clone(k.settings.Jobs) // a run of one that is gone may still be tried again
	if jobs == nil {
		jobs = map[string]Job{}
	}
	maps.Copy(jobs, next.Jobs)
	k.settings.Hooks, k.settings.Socket, k.settings.Jobs, k.settings.Checks, k.settings.Programs = next.Hooks, next.Socket, jobs, next.Checks, next.Programs
	k.hands.SetSocket(next.Socket)
	k.step(hooks.Checking{Checks: k.settings.Checks})
	k.step(hooks.Reloaded{Config: next.Hooks.WithDefaults()})
}

// cleanUp has the lanes make up for an earlier life. A life has one.
func (k *keeper) cleanUp(ev hooks.Event) {
	if !k.hasCleaned {
		k.hasCleaned, k.isCleaning = true, true
		k.step(hooks.CleanUp{Event: ev})
	}
}

func (k *keeper) cleaned(res hooks.Result) {
	k.isCleaning = false
	k.say(report{Say: sayCleaned, Outcome: tell(res)})
}

func (k *keeper) runHooks() {
	k.phase, k.hasRun = running, true
	k.step(hooks.Opened{})
}

// onDeath ends what the agent has left.
func (k *keeper) onDeath() {
	k.release()
	k.isDead = true
	k.out.toStderr()
	k.endReader()
	if k.phase < leaving {
		k.desert()
	}
}

// desert has Lanes end what the agent has left. Where hooks were not let run yet, this process ends once a clean-up has, if one goes on.
func (k *keeper) desert() {
	if k.phase < running {
		k.phase = closing
	}
	if k.hands != nil {
		k.step(hooks.AgentDied{})
	}
}

// onDeaf is about an agent that has closed its pipe. While it lives and leads, its
// deadline is minded; nobody else will say what to do.
func (k *keeper) onDeaf() {
	k.release()
	switch {
	case k.phase < running:
		k.desert()
	case k.hasRun:
		k.step(hooks.AgentDeaf{})
	}
}

// close ends what runs, and then this process.
func (k *keeper) close() {
	if k.phase >= closing {
		return
	}
	k.phase = closing
	k.stop()
	k.endReader()
	if k.hands != nil {
		k.hands.Hurry()
		k.step(hooks.Closed{})
	}
}

// conclude ends this process when it is to end, and nothing runs.
func (k *keeper) conclude() {
	if k.phase == closing && !k.isCleaning && (!k.hasRun || k.lanes.IsAllAtRest()) {
		k.rest()
	}
}

// leave ends this process, with its agent's will, if that is dead and others may be told.
func (k *keeper) leave(isClear bool) {
	k.phase = leaving
	if !k.isDead {
		k.post(k.close)
		return
	}
	last := k.will
	if !isClear || k.agent.pidfd == nil { // without one it may only seem to be dead
		last.heirs = nil
	}
	go func() {
		last.say()
		k.post(k.close)
	}()
}

// rest waits for the last files.
func (k *keeper) rest() {
	if !k.hasRun {
		k.phase = over
		return
	}
	k.phase = resting
	k.hands.Close(func() { k.post(func() { k.phase = over }) })
}
