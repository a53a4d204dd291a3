package paper

// algorithm makes a run's nodes.
type algorithm func(net *network, id int) process

// scenario is one run: who is up, and who notices what at the start.
type scenario struct {
	algorithm algorithm
	dead      []int
	spared    int   // a dead node that everybody knows to be dead and does not ask; 0: none
	starters  []int // notice at once that the leader failed
	joiner    int   // comes up; 0: nobody does
}

// set is the network before anything has arrived.
func (s scenario) set(n int) *network {
	net := newNetwork(n)
	for id := 1; id <= n; id++ {
		net.processes[id] = s.algorithm(net, id)
	}
	for _, id := range s.dead {
		net.dead[id] = true
	}
	net.spared = s.spared
	for _, id := range s.starters {
		net.processes[id].start()
	}
	if s.joiner != 0 {
		net.processes[s.joiner].join()
	}
	return net
}

// run plays the scenario to its end.
func (s scenario) run(n int) tally {
	net := s.set(n)
	net.run()
	return net.sent
}

// span is all ids from first to last.
func span(first, last int) []int {
	var ids []int
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}

// half is how many of n nodes are candidates of the enhanced Bully: ⌈n/2⌉, which
// is what the paper's Table I takes (protocol 5).
func half(n int) int { return (n + 1) / 2 }

// Fail-overs with the classic Bully. The leader n is dead, except for the runs in
// which all are up.

func classicAllUp(start int) scenario {
	return scenario{algorithm: newClassic, starters: []int{start}}
}

func classicFrom(n, start int) scenario {
	return scenario{algorithm: newClassic, dead: []int{n}, starters: []int{start}}
}

func classicBest(n int) scenario {
	return scenario{algorithm: newClassic, dead: []int{n}, spared: n, starters: []int{n - 1}}
}

func classicAllDetect(n int) scenario {
	return scenario{algorithm: newClassic, dead: []int{n}, starters: span(1, n-1)}
}

func unguardedAllUp(int) scenario {
	return scenario{algorithm: newUnguarded, starters: []int{1}}
}

// Fail-overs with the enhanced Bully; the leader n is dead, and a candidate.

func enhancedFrom(n, start int) scenario {
	return scenario{algorithm: newEnhanced(n), dead: []int{n}, starters: []int{start}}
}

func enhancedNoCandidates(n int) scenario {
	return scenario{algorithm: newEnhanced(n), dead: span(n-half(n)+1, n), starters: []int{1}}
}

func enhancedBest(n int) scenario {
	return scenario{algorithm: newEnhanced(n), dead: []int{n}, spared: n, starters: []int{n - 1}}
}

func enhancedAllDetect(n int) scenario {
	return scenario{algorithm: newEnhanced(n), dead: []int{n}, starters: span(1, n-1)}
}

// Fail-overs with the smallest-id algorithm; the leader 1 is dead, except for the
// run in which all are up.

var (
	shortcut   = smallestRules{incumbent: 1, second: 2}
	noShortcut = smallestRules{incumbent: 1}
)

func smallestAllUp(n int) scenario {
	return scenario{algorithm: newSmallest(noShortcut), starters: []int{n}}
}

func smallestFrom(start int, rules smallestRules) scenario {
	return scenario{algorithm: newSmallest(rules), dead: []int{1}, starters: []int{start}}
}

func smallestAllDetect(n int) scenario {
	return scenario{algorithm: newSmallest(shortcut), dead: []int{1}, starters: span(2, n)}
}

// Joins: all others are up and follow the best of them.

func classicJoin(joiner int) scenario {
	return scenario{algorithm: newClassic, joiner: joiner}
}

func enhancedJoin(n, joiner int) scenario {
	incumbent := n
	if joiner == n {
		incumbent = n - 1
	}
	return scenario{algorithm: newEnhanced(incumbent), joiner: joiner}
}

func smallestJoin(joiner, minimum int) scenario {
	incumbent := 1
	if joiner == 1 {
		incumbent = 2
	}
	return scenario{algorithm: newSmallest(smallestRules{incumbent: incumbent, minimum: minimum}), joiner: joiner}
}
