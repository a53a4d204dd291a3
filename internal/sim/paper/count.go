package paper

// Count is what one run sent, counted in three ways. They differ by whom a
// message is addressed to, not by what became of it: the network loses nothing.
type Count struct {
	Sent      int // datagrams, those addressed to dead nodes included
	Live      int // datagrams addressed to live nodes
	Broadcast int // sendings: a message to many at once is one
}

// NotRun stands for the count of a run that was not made.
var NotRun = Count{Sent: -1, Live: -1, Broadcast: -1}

// Counting is one of the ways to count.
type Counting uint8

const (
	NoCounting Counting = iota
	BySent
	ByLive
	ByBroadcast
)

// By is the count in one way; 0 for NoCounting.
func (c Count) By(counting Counting) int {
	switch counting {
	case BySent:
		return c.Sent
	case ByLive:
		return c.Live
	case ByBroadcast:
		return c.Broadcast
	}
	return 0
}

// tally is a run's counts by the kind of message.
type tally [kinds]Count

func (t tally) total() Count {
	var sum Count
	for _, c := range t {
		sum.Sent += c.Sent
		sum.Live += c.Live
		sum.Broadcast += c.Broadcast
	}
	return sum
}
