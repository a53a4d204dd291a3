package netlab

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Weather is what a wire does to each frame, as a bad network does.
type Weather struct {
	Loss   float64       // share of frames that are lost, 0 to 1
	Delay  time.Duration // one way
	Jitter time.Duration // up to so much more or less of it, so that frames overtake each other
	Seed   uint64        // of the chance behind both
}

// Fine is no weather: a switch like any other.
var Fine = Weather{}

// IsFine reports whether each frame arrives at once.
func (w Weather) IsFine() bool { return w.Loss == 0 && w.Delay == 0 && w.Jitter == 0 }

func (w Weather) String() string {
	text := fmt.Sprintf("%g %% loss", 100*w.Loss)
	if w.Delay > 0 {
		text += fmt.Sprintf(", %v delay", w.Delay)
	}
	if w.Jitter > 0 {
		text += fmt.Sprintf(" ± %v", w.Jitter)
	}
	return fmt.Sprintf("%s, seed %d", text, w.Seed)
}

// wire is a switch for Ethernet frames in this process, for kernels without netem. Each frame is lost or delayed for
// itself, once for each port that it goes to, ARP and TCP like any other.
type wire struct {
	Weather
	ended sync.WaitGroup // all goroutines of all jacks

	mu     sync.Mutex
	random *rand.Rand
	jacks  []*jack
	learnt map[mac]*jack
	sent   uint64
}

// mac is an Ethernet address.
type mac [6]byte

const (
	leastFrame  = 14   // two addresses and a type
	mostFrame   = 2048 // an MTU of 1500 and some
	mostWaiting = 4096 // frames for one port; more are lost, as in any switch
)

func newWire(w Weather) *wire {
	return &wire{Weather: w, random: rand.New(rand.NewPCG(w.Seed, 0)), learnt: map[mac]*jack{}}
}

// jack is one port of a wire. A device behind it takes and gives a whole frame with each Read and Write.
type jack struct {
	wire    *wire
	device  io.ReadWriteCloser
	arrived chan flight
	done    chan struct{} // closed when the device has ended
	at      side          // guarded by wire.mu
}

// attach connects a device, which the wire closes in the end.
func (w *wire) attach(device io.ReadWriteCloser) *jack {
	j := &jack{wire: w, device: device, at: mainPart, arrived: make(chan flight, mostWaiting), done: make(chan struct{})}
	w.mu.Lock()
	w.jacks = append(w.jacks, j)
	w.mu.Unlock()
	w.ended.Go(j.listen)
	w.ended.Go(j.deliver)
	return j
}

// close ends all devices and returns when nothing of the wire runs any more.
func (w *wire) close() {
	w.mu.Lock()
	jacks := slices.Clone(w.jacks)
	w.mu.Unlock()
	for _, j := range jacks {
		_ = j.device.Close()
	}
	w.ended.Wait()
}

// connect puts the plug in, or takes it out.
func (j *jack) connect(part side) {
	j.wire.mu.Lock()
	defer j.wire.mu.Unlock()
	j.at = part
}

// listen routes what the device sends, until that ends.
func (j *jack) listen() {
	defer close(j.done)
	buf := make([]byte, mostFrame)
	for {
		n, err := j.device.Read(buf)
		if err != nil {
			return
		}
		if n >= leastFrame {
			j.wire.route(j, slices.Clone(buf[:n]))
		}
	}
}

// route sends a frame where its address was last seen, or everywhere.
func (w *wire) route(from *jack, frame []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from.at == nowhere {
		return
	}
	w.learnt[mac(frame[6:12])] = from
	if to, known := w.learnt[mac(frame[:6])]; known {
		w.send(from, to, frame)
		return
	}
	for _, to := range w.jacks {
		w.send(from, to, frame)
	}
}

// send puts a frame on its way, unless it is lost. It never waits.
func (w *wire) send(from, to *jack, frame []byte) {
	if to == from || to.at != from.at || w.random.Float64() < w.Loss {
		return
	}
	late := w.Delay
	if w.Jitter > 0 {
		late += time.Duration(w.random.Int64N(int64(2*w.Jitter)+1)) - w.Jitter
	}
	w.sent++
	select {
	case to.arrived <- flight{time.Now().Add(late), w.sent, frame}:
	default:
	}
}

// flight is a frame under way.
type flight struct {
	due    time.Time
	number uint64 // keeps the order of those that are due at once
	frame  []byte
}

// deliver hands frames to the device when they are due.
func (j *jack) deliver() {
	var waiting flights
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if len(waiting) > 0 {
			timer.Reset(time.Until(waiting[0].due))
			due = timer.C
		}
		select {
		case f := <-j.arrived:
			if len(waiting) < mostWaiting {
				heap.Push(&waiting, f)
			}
		case <-due:
			// An interface that is down takes nothing: the frame is lost.
			_, _ = j.device.Write(heap.Pop(&waiting).(flight).frame)
		case <-j.done:
			return
		}
	}
}

// flights is a heap, the next one due first.
type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(a, b int) bool {
	if !f[a].due.Equal(f[b].due) {
		return f[a].due.Before(f[b].due)
	}
	return f[a].number < f[b].number
}
func (f flights) Swap(a, b int) { f[a], f[b] = f[b], f[a] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}

// tap is an Ethernet interface whose cable ends in this process.
type tap struct{ *os.File }

// openTap makes the interface in the namespace of the calling thread.
func openTap(name string) (tap, error) {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return tap{}, fmt.Errorf("open %s: %w", device, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return tap{}, fmt.Errorf("make tap %s: %w", name, err)
	}
	return tap{os.NewFile(uintptr(fd), device)}, nil
}

// carrier lets the interface believe that there is something at the other end, or nothing.
func (t tap) carrier(on bool) error {
	value := 0
	if on {
		value = 1
	}
	raw, err := t.SyscallConn() // and not Fd, which would make reads uninterruptible
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetPointerInt(int(fd), unix.TUNSETCARRIER, value) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("set carrier: %w", err)
	}
	return nil
}
