package reader

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Word is the program's first argument when it is to be a reader.
const Word = "reader"

// State is what is known of the reader.
type State struct {
	Process int    // its id; 0: none runs
	Why     string // none runs, or the last one ended; empty: it runs as it should
	Lacks   string // what of its confinement this host does not bear, as it says itself; empty: nothing
}

// rule is how readers follow each other. Tests shorten it.
type rule struct {
	first, longest time.Duration // between the end of a reader and the start of the next; it doubles as long as they end soon
	sound          time.Duration // one that lives as long does not end soon
	patience       time.Duration // one that says nothing for so long hangs
}

// defaultRule is arbitrary: strangers may be able to end a reader, and must not make its host busy with that. A reader
// runs at nice 10 on a host that may be busy, and is not taken to hang for that.
var defaultRule = rule{first: 200 * time.Millisecond, longest: 5 * time.Second, sound: time.Second, patience: 10 * time.Second}

// beatEvery is how often a reader says that it lives.
const beatEvery = time.Second

var (
	errHangs = errors.New("it hangs")
	errEnded = errors.New("it is to end")
)

// Keep has a reader run until End: one that ends or hangs is followed by another. Everything that takes time
// is done on a goroutine of its own.
type Keep struct {
	door    *Door
	program []string
	tell    func(State)
	log     hclog.Logger
	rule    rule
	over    chan struct{} // closed when no reader runs any more
	ending  chan struct{} // closed by End

	mu    sync.Mutex
	life  *os.File // the socket of the one that runs; nil: none does
	isEnd bool
}

// Keep begins to keep a reader, which program is: nil is this one. tell is called with each change, on the goroutine of
// the keep. The door is the keep's from then on.
func (d *Door) Keep(program []string, tell func(State), log hclog.Logger) *Keep {
	if program == nil {
		program = []string{sidecar.Program, Word}
	}
	return d.keep(program, defaultRule, tell, log)
}

func (d *Door) keep(program []string, r rule, tell func(State), log hclog.Logger) *Keep {
	k := &Keep{door: d, program: program, tell: tell, log: log, rule: r, over: make(chan struct{}), ending: make(chan struct{})}
	go k.run()
	return k
}

// End has the reader end, and no other follow. It does not wait; Over is closed when that is done.
func (k *Keep) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isEnd {
		return
	}
	k.isEnd = true
	close(k.ending)
	if k.life != nil {
		k.life.Close() // which the reader sees
	}
}

// Over is closed when the last reader has ended.
func (k *Keep) Over() <-chan struct{} { return k.over }

// run is on a thread of its own, which lasts as long as the keep: a reader dies with the thread that has started it, and
// is ordinary whatever this process is.
func (k *Keep) run() {
	defer close(k.over)
	runtime.LockOSThread()
	shed := realtime.Shed()
	defer k.door.Close()
	for pause := k.rule.first; ; pause = min(2*pause, k.rule.longest) {
		began := time.Now()
		err := shed
		if err == nil {
			err = k.one()
		}
		if errors.Is(err, errEnded) {
			k.tell(State{})
			return
		}
		if time.Since(began) >= k.rule.sound {
			pause = k.rule.first
		}
		k.log.Error("reader ended, the network is not answered; another is started", "err", err, "in", pause)
		k.tell(State{Why: err.Error()})
		select {
		case <-time.After(pause):
		case <-k.ending:
			k.tell(State{})
			return
		}
	}
}

// one is the life of one reader, and says how it ended.
func (k *Keep) one() error {
	cmd := exec.Command(k.program[0], k.program[1:]...)
	cmd.Stderr = os.Stderr
	life, err := sidecar.Start(cmd, k.door.Files()...)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.life = life
	isEnd := k.isEnd
	k.mu.Unlock()
	if !isEnd {
		s := State{Process: cmd.Process.Pid}
		k.tell(s)
		err = k.hear(life, s)
	}
	if errors.Is(err, errHangs) {
		_ = cmd.Process.Kill()
	}
	k.mu.Lock()
	k.life, isEnd = nil, k.isEnd
	k.mu.Unlock()
	life.Close()
	end := sidecar.Reap(cmd)
	switch {
	case isEnd:
		return errEnded
	case errors.Is(err, errHangs):
		return err
	}
	return end
}

// hear reads what a reader says, until it says nothing any more: no faster than one that is well speaks. What a reader says
// beyond that finds no room. s is what is known of it.
func (k *Keep) hear(life *os.File, s State) error {
	datagram := make([]byte, mostLine)
	pace, words := linePace(), rate.NewLimiter(2*linesPerSecond, 2*linesAtOnce)
	for ; ; time.Sleep(words.Reserve().Delay()) {
		_ = life.SetReadDeadline(time.Now().Add(k.rule.patience))
		n, err := life.Read(datagram)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errHangs
		case err != nil || n == 0:
			return err
		}
		var l line
		switch text := datagram[1:n]; {
		case datagram[0] == isLine && pace.Allow() && json.Unmarshal(text, &l) == nil:
			l.write(k.log)
		case datagram[0] == isLack && n > 1 && pace.Allow():
			k.onLack(&s, plain(string(text)))
		}
	}
}

// onLack adds one thing to what a reader lacks, if there is room.
func (k *Keep) onLack(s *State, lack string) {
	all := lack
	if s.Lacks != "" {
		all = s.Lacks + "; " + lack
	}
	if len(all) > mostLine {
		return
	}
	k.log.Warn("this host confines the reader less than it should", "lacks", lack)
	s.Lacks = all
	k.tell(*s)
}
