package sim

// timeline is what will happen: a heap ordered by true time, and by the order
// of planning where times are equal, so that a run depends on nothing else.
type timeline struct {
	heap  []planned
	order uint64
}

// planned is one thing that will happen. The two frequent kinds have fields of
// their own; everything else is a function.
type planned struct {
	at    int64
	order uint64
	kind  plan
	who   *machine
	life  int32   // plan is void if the machine's life is another by then
	frame *packet // arrival
	do    func()  // deed
}

type plan uint8

const (
	deed    plan = iota // do
	tick                // a Node's deadline
	arrival             // of a datagram
)

func (a *planned) before(b *planned) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.order < b.order
}

func (q *timeline) empty() bool { return len(q.heap) == 0 }

// add plans p. The heap has four children to a node: fewer, longer steps suit
// the cache better than a binary one.
func (q *timeline) add(p planned) {
	q.order++
	p.order = q.order
	q.heap = append(q.heap, p)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !p.before(&q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = p
}

// next takes what happens first.
func (q *timeline) next() planned {
	first := q.heap[0]
	last := len(q.heap) - 1
	p := q.heap[last]
	q.heap[last] = planned{}
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(p)
	}
	return first
}

// sink puts p into the hole at the top.
func (q *timeline) sink(p planned) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q.heap) {
			break
		}
		least := child
		for k := child + 1; k < min(child+4, len(q.heap)); k++ {
			if q.heap[k].before(&q.heap[least]) {
				least = k
			}
		}
		if !q.heap[least].before(&p) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = p
}
