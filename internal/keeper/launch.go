package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// process is one keeper, as its agent sees it.
type process struct {
	cmd  *exec.Cmd
	conn *sidecar.Conn
	gone chan struct{} // closed when it has ended

	mu      sync.Mutex
	more    *sync.Cond
	given   []given // what it has not read, oldest first
	sent    int     // how many of these were sent
	number  uint64  // of the last
	renewal *renewal
	isGone  bool
	overdue *time.Timer // fires when the first of given is
}

// given is an order that is to be read within some time.
type given struct {
	order  order
	within time.Duration
	by     time.Time     // zero: it was not sent yet
	read   chan struct{} // closed when it has been read
}

// openPatience is how long a keeper may take to open its directory: the disk may be slow.
const openPatience = 30 * time.Second

// launch starts a keeper, lets it run hooks if Run was called, and gives it what waits.
func (c *Client) launch(ctx context.Context, waits func(process int)) error {
	c.mu.Lock()
	k := c.launched
	c.isStale, c.launched = false, nil
	c.mu.Unlock()
	if k == nil {
		var err error
		if k, err = c.cfg.start(); err != nil {
			return err
		}
	}
	news := make(chan report, 2)
	go k.write()
	go func() {
		defer close(news)
		err := k.read(func(r report) {
			if r.Say == sayWaits || r.Say == sayOpened {
				news <- r
				return
			}
			if answer := c.hear(k, r); answer != nil {
				answer()
			}
		})
		c.lost(k, err)
	}()
	k.give(order{Do: toOpen, Version: version}, openPatience)
	r, err := k.opens(ctx, news, waits)
	if err != nil {
		return err
	}
	c.take(k, r.Owed)
	return nil
}

// opens waits until the keeper says that it is open. For that of an earlier life it waits
// as long as it likes: it knows how long that one may work.
func (k *process) opens(ctx context.Context, news <-chan report, waits func(process int)) (report, error) {
	late := time.NewTimer(openPatience)
	defer late.Stop()
	for {
		select {
		case r, isAlive := <-news:
			switch {
			case !isAlive:
				return r, errors.New("it ended at once")
			case r.Say == sayWaits:
				late.Stop()
				waits(r.Process)
			case r.Err != "":
				return r, errors.New(r.Err)
			case r.Version != version:
				k.kill()
				return r, sameVersion(r.Version)
			default:
				return r, nil
			}
		case <-ctx.Done():
			k.kill()
			return report{}, ctx.Err()
		case <-late.C:
			k.kill()
			return report{}, errors.New("it does not answer")
		}
	}
}

// take makes k the keeper.
func (c *Client) take(k *process, owed *hooks.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeper, c.why = k, nil
	c.entrust(k)
	if c.isStale {
		c.reload(k)
	}
	k.give(order{Do: toRecover}, answerPatience)
	if owed != nil {
		c.owed = *owed
	}
	if c.phase == running && c.reign != nil {
		k.give(order{Do: toAdopt, Event: *c.reign, Lease: c.renewed.silent()}, answerPatience)
	}
	if c.isLent { // after what an adopted lease says
		k.give(c.lending(), answerPatience)
	}
	for _, o := range c.waiting {
		if o.Do == toStart {
			o.Lease = c.renewed.silent() // renewed since, perhaps
		}
		k.give(o, c.patienceFor(o))
	}
	c.waiting = nil
	if c.phase == running { // last, since from then on it judges this agent: it has heard what waits by then
		k.give(order{Do: toRun}, answerPatience)
	}
	if k.isOver() { // it has died meanwhile, and nobody was told
		go c.lost(k, ErrDied)
	}
}

// replace starts another keeper, sooner or later.
func (c *Client) replace() {
	for {
		err := c.launch(context.Background(), func(int) {})
		c.mu.Lock()
		if err == nil || c.phase == closing {
			if c.keeper != nil && c.phase == closing {
				c.keeper.give(order{Do: toClose}, answerPatience)
			}
			c.mu.Unlock()
			return
		}
		c.why = fmt.Errorf("no keeper runs: %w", err)
		c.cfg.Logger.Error("keeper not started, no command can be run", "err", err)
		c.waiting = nil
		c.notCleaned(c.why)
		for len(c.open) > 0 {
			c.abandon(c.open[0], c.why)
		}
		c.mu.Unlock()
		select {
		case <-time.After(anew):
		case <-c.ended:
			return
		}
	}
}

// processors of the runtime are for the keeper's loop and workers, and for forks at one time: of a leadership's hook, a notification and
// checks. Each fork has one of them until its child has executed, which hangs with the program's file system. Six is arbitrary: one
// fork for each check would be 18, and a collection stops the loop after two minutes anyway.
const processors = 2 + 6

// start forks the process, with its line, what we are watched by, and the reader's door.
func (cfg Config) start() (*process, error) {
	cmd := exec.Command(cfg.Program[0], cfg.Program[1:]...)
	cmd.Env = append([]string{fmt.Sprint("GOMAXPROCS=", processors)}, cfg.Environ...)
	cmd.Stderr = os.Stderr
	self, err := handle(cfg.pidfd)
	if err != nil {
		return nil, err
	}
	defer self.Close()
	files := []*os.File{self} // agentFD
	if cfg.Reader != nil {
		files = append(files, cfg.Reader.Files()...) // doorFD and on
	}
	c, err := sidecar.StartConn(cmd, files...)
	if err != nil {
		return nil, err
	}
	k := &process{cmd: cmd, conn: c, gone: make(chan struct{})}
	k.more = sync.NewCond(&k.mu)
	return k, nil
}

func (k *process) pid() int { return k.cmd.Process.Pid }

// give queues an order; the channel is closed when the keeper has read it.
func (k *process) give(o order, within time.Duration) (read <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.number++
	o.Number = k.number
	if o.Do == toStart && k.renewal != nil { // the order has it
		k.renewal = nil
	}
	g := given{order: o, within: within, read: make(chan struct{})}
	k.given = append(k.given, g)
	k.more.Signal()
	return g.read
}

// ask wants no more than that the keeper reads, unless an order waits for that already.
func (k *process) ask() {
	k.mu.Lock()
	isAsked := len(k.given) > 0
	k.mu.Unlock()
	if !isAsked {
		k.give(order{Do: toAnswer}, answerPatience)
	}
}

// renew has the newest deadline sent when there is nothing else to send.
func (k *process) renew(r renewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewal = &r
	k.more.Signal()
}

// next waits for something to send; false when the keeper is gone.
func (k *process) next() (text []byte, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.sent == len(k.given) && k.renewal == nil && !k.isGone {
		k.more.Wait()
	}
	switch {
	case k.isGone:
		return nil, false
	case k.sent == len(k.given):
		r := *k.renewal
		k.renewal = nil
		return encodeRenewal(r), true
	}
	g := &k.given[k.sent]
	g.by = time.Now().Add(g.within)
	k.sent++
	k.mind()
	return encodeOrder(g.order), true
}

// write sends orders and renewals until the keeper is gone, or too slow.
func (k *process) write() {
	for text, ok := k.next(); ok; text, ok = k.next() {
		k.conn.Patience(answerPatience)
		err := k.conn.Send(text)
		if errors.Is(err, os.ErrDeadlineExceeded) { // which a process that was frozen sees late
			k.conn.Patience(answerPatience)
			err = k.conn.Resend()
		}
		if err != nil {
			k.kill()
			return
		}
	}
}

// mind sets the timer for the first order that was sent and not read; the caller holds mu.
func (k *process) mind() {
	if k.overdue != nil {
		k.overdue.Stop()
		k.overdue = nil
	}
	if k.sent > 0 {
		k.overdue = time.AfterFunc(time.Until(k.given[0].by), k.onOverdue)
	}
}

// readAnew is how long a keeper has at most whose answer may be waiting for us, since it
// was this process that did not run, or the host. Arbitrary.
const readAnew = 200 * time.Millisecond

// onOverdue kills a keeper that does not read, unless it turns out to have done so.
func (k *process) onOverdue() {
	k.mu.Lock()
	anew := time.Duration(0)
	if k.sent > 0 {
		anew = min(readAnew, k.given[0].within/2)
	}
	k.mu.Unlock()
	time.Sleep(anew)
	k.mu.Lock()
	isLate := !k.isGone && k.sent > 0 && !time.Now().Before(k.given[0].by)
	k.mu.Unlock()
	if isLate {
		k.kill()
	}
}

// hasRead notes an acknowledgement.
func (k *process) hasRead(number uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for n < k.sent && k.given[n].order.Number <= number {
		close(k.given[n].read)
		n++
	}
	if n > 0 {
		k.given, k.sent = k.given[n:], k.sent-n
		k.mind()
	}
}

// read takes reports until the keeper is gone, and says how it ended.
func (k *process) read(hear func(report)) error {
	k.conn.Wait(func() bool {
		return k.conn.Drain(func(text []byte) (enough bool) {
			var r report
			if sidecar.Decode(text, &r) == nil {
				k.hasRead(r.Read)
				hear(r)
			}
			return false
		}) != nil
	})
	err := sidecar.Reap(k.cmd)
	k.mu.Lock()
	k.isGone = true
	if k.overdue != nil {
		k.overdue.Stop()
	}
	k.more.Signal()
	k.mu.Unlock()
	k.conn.Close()
	close(k.gone)
	return err
}

func (k *process) isOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isGone
}

func (k *process) kill() { _ = k.cmd.Process.Kill() }

// outlast waits for its end, and enforces it.
func (k *process) outlast(d time.Duration) {
	select {
	case <-k.gone:
		return
	case <-time.After(d):
		k.kill()
	}
	<-k.gone
}
