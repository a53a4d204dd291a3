package paper

import (
	"fmt"
	"testing"
)

// TestEveryPublishedCount holds the papers' figures and their reckonings on equal
// footing (protocol 5), for n = 5, 10 and 20. The counts are what a run sent.
func TestEveryPublishedCount(t *testing.T) {
	ns := []int{5, 10, 20}
	tests := []struct {
		name     string
		scenario func(n int) scenario
		counting Counting
		want     [3]int
	}{
		{"I Bully", func(int) scenario { return classicAllUp(1) }, BySent, [3]int{24, 99, 399}},
		{"I Enhanced", func(n int) scenario { return enhancedFrom(n, 1) }, BySent, [3]int{9, 18, 38}},
		{"I Smallest", smallestAllUp, ByBroadcast, [3]int{6, 11, 21}},
		{"II Bully", classicBest, BySent, [3]int{4, 9, 19}},
		{"II Enhanced", enhancedBest, BySent, [3]int{4, 9, 19}},
		{"II Smallest", func(int) scenario { return smallestFrom(2, shortcut) }, ByBroadcast, [3]int{1, 1, 1}},
		{"II Smallest, datagrams", func(int) scenario { return smallestFrom(2, shortcut) }, BySent, [3]int{4, 9, 19}},

		{"classic worst", func(n int) scenario { return classicFrom(n, 1) }, BySent, [3]int{20, 90, 380}},
		{"classic worst", func(n int) scenario { return classicFrom(n, 1) }, ByLive, [3]int{15, 80, 360}},
		{"classic worst", func(n int) scenario { return classicFrom(n, 1) }, ByBroadcast, [3]int{11, 46, 191}},
		{"enhanced ordinary", func(n int) scenario { return enhancedFrom(n, 1) }, BySent, [3]int{9, 18, 38}},
		{"enhanced ordinary", func(n int) scenario { return enhancedFrom(n, 1) }, ByLive, [3]int{7, 16, 36}},
		{"enhanced ordinary", func(n int) scenario { return enhancedFrom(n, 1) }, ByBroadcast, [3]int{4, 6, 11}},
		{"enhanced, no candidates", enhancedNoCandidates, BySent, [3]int{9, 22, 47}},
		{"enhanced, no candidates", enhancedNoCandidates, ByLive, [3]int{3, 12, 27}},
		{"enhanced, no candidates", enhancedNoCandidates, ByBroadcast, [3]int{4, 7, 12}},
		{"smallest, shortcut", func(n int) scenario { return smallestFrom(n, shortcut) }, BySent, [3]int{10, 25, 55}},
		{"smallest, shortcut", func(n int) scenario { return smallestFrom(n, shortcut) }, ByLive, [3]int{8, 23, 53}},
		{"smallest, shortcut", func(n int) scenario { return smallestFrom(n, shortcut) }, ByBroadcast, [3]int{4, 9, 19}},
		{"smallest, no shortcut", func(n int) scenario { return smallestFrom(n, noShortcut) }, BySent, [3]int{11, 26, 56}},
		{"smallest, no shortcut", func(n int) scenario { return smallestFrom(n, noShortcut) }, ByLive, [3]int{9, 24, 54}},
		{"smallest, no shortcut", func(n int) scenario { return smallestFrom(n, noShortcut) }, ByBroadcast, [3]int{5, 10, 20}},

		{"classic, all detect", classicAllDetect, BySent, [3]int{20, 90, 380}},
		{"enhanced, all detect", enhancedAllDetect, BySent, [3]int{30, 142, 632}},
		{"smallest, all detect", smallestAllDetect, BySent, [3]int{31, 181, 856}},

		{"classic, best joins", func(n int) scenario { return classicJoin(n) }, BySent, [3]int{4, 9, 19}},
		{"classic, worst joins", func(int) scenario { return classicJoin(1) }, BySent, [3]int{24, 99, 399}},
		{"enhanced, candidate joins", func(n int) scenario { return enhancedJoin(n, n-1) }, BySent, [3]int{2, 2, 2}},
		{"enhanced, ordinary joins", func(n int) scenario { return enhancedJoin(n, 1) }, BySent, [3]int{6, 10, 20}},
		{"enhanced, best joins", func(n int) scenario { return enhancedJoin(n, n) }, BySent, [3]int{4, 9, 19}},
		{"smallest, known minimum joins", func(int) scenario { return smallestJoin(1, 1) }, ByBroadcast, [3]int{1, 1, 1}},
		{"smallest, known minimum joins", func(int) scenario { return smallestJoin(1, 1) }, BySent, [3]int{4, 9, 19}},
		{"smallest, best joins", func(int) scenario { return smallestJoin(1, 0) }, ByBroadcast, [3]int{3, 3, 3}},
		{"smallest, best joins", func(int) scenario { return smallestJoin(1, 0) }, BySent, [3]int{9, 19, 39}},
		{"smallest, worst joins", func(n int) scenario { return smallestJoin(n, 0) }, ByBroadcast, [3]int{2, 2, 2}},
		{"smallest, worst joins", func(n int) scenario { return smallestJoin(n, 0) }, BySent, [3]int{5, 10, 20}},
	}
	for _, test := range tests {
		for i, n := range ns {
			t.Run(fmt.Sprintf("%s/%d/n=%d", test.name, test.counting, n), func(t *testing.T) {
				if got := test.scenario(n).run(n).total().By(test.counting); got != test.want[i] {
					t.Errorf("sent %d, want %d", got, test.want[i])
				}
			})
		}
	}
}

// TestBestCaseIsTheSameForAll: whoever is best announces itself, in any
// algorithm.
func TestBestCaseIsTheSameForAll(t *testing.T) {
	for n := MinSize; n <= 40; n++ {
		want := Count{Sent: n - 1, Live: n - 2, Broadcast: 1}
		for _, s := range []scenario{classicBest(n), enhancedBest(n), smallestFrom(2, shortcut)} {
			if got := s.run(n).total(); got != want {
				t.Errorf("n=%d: sent %+v, want %+v", n, got, want)
			}
		}
		want.Sent++ // one that asks the crashed leader, too
		want.Broadcast++
		for _, s := range []scenario{classicFrom(n, n-1), enhancedFrom(n, n-1)} {
			if got := s.run(n).total(); got != want {
				t.Errorf("n=%d, asking the crashed leader: sent %+v, want %+v", n, got, want)
			}
		}
	}
}

// TestFormulas compares what was sent with the closed forms of protocol 5, for
// every size up to 40.
func TestFormulas(t *testing.T) {
	for n := MinSize; n <= 40; n++ {
		c := half(n)
		tests := []struct {
			name     string
			scenario scenario
			counting Counting
			want     int
		}{
			{"all up", classicAllUp(1), BySent, n*n - 1},
			{"worst", classicFrom(n, 1), BySent, n * (n - 1)},
			{"worst", classicFrom(n, 1), ByLive, n * (n - 2)},
			{"all detect", classicAllDetect(n), BySent, n * (n - 1)},
			{"ordinary", enhancedFrom(n, 1), BySent, 2*c + n - 2},
			{"all detect", enhancedAllDetect(n), BySent, (n-c)*(2*c+n-2) + (c-1)*(c-1) + (c-1)*(n-1)},
			{"ordinary joins", enhancedJoin(n, 1), BySent, 2 * c},
			{"all up", smallestAllUp(n), ByBroadcast, 1 + (n - 1) + 1},
			{"shortcut", smallestFrom(n, shortcut), BySent, 3*n - 5},
			{"shortcut", smallestFrom(n, shortcut), ByBroadcast, n - 1},
			{"no shortcut", smallestFrom(n, noShortcut), BySent, 3*n - 4},
			{"no shortcut", smallestFrom(n, noShortcut), ByBroadcast, n},
			{"all detect", smallestAllDetect(n), BySent, (n-1)*(n-1) + (n-1)*(n-2) + (n-2)*(n-3)/2},
			{"wins by query", smallestJoin(1, 0), BySent, 2*n - 1},
		}
		for _, test := range tests {
			if got := test.scenario.run(n).total().By(test.counting); got != test.want {
				t.Errorf("%s, n=%d: sent %d, want %d", test.name, n, got, test.want)
			}
		}
	}
}

// TestClassicFromAnyStart: the cost is a square of how many are not below the
// starter.
func TestClassicFromAnyStart(t *testing.T) {
	for _, n := range []int{5, 10, 20, 33} {
		for start := 1; start < n; start++ {
			got := classicFrom(n, start).run(n).total()
			if want := (n-start)*(n-start) + n - 1; got.Sent != want {
				t.Errorf("n=%d, start %d: sent %d, want %d", n, start, got.Sent, want)
			}
			if want := (n-start)*(n-start-1) + n - 2; got.Live != want {
				t.Errorf("n=%d, start %d: sent %d to live nodes, want %d", n, start, got.Live, want)
			}
			all := classicAllUp(start).run(n).total()
			if want := (n-start)*(n-start+1) + n - 1; all.Sent != want {
				t.Errorf("n=%d, start %d, all up: sent %d, want %d", n, start, all.Sent, want)
			}
		}
	}
}

// TestMissingGuard is CE9.
func TestMissingGuard(t *testing.T) {
	for n, want := range map[int]int{5: 15, 10: 511, 20: 524287} {
		sent := unguardedAllUp(n).run(n)
		if got := sent[election].Sent; got != want {
			t.Errorf("n=%d: %d elections, want %d", n, got, want)
		}
		if sent[answer].Sent != want {
			t.Errorf("n=%d: %d answers to %d elections", n, sent[answer].Sent, want)
		}
	}
}

// leaderOf is whom a node follows.
func leaderOf(p process) int {
	switch p := p.(type) {
	case *classic:
		return p.leader
	case *enhanced:
		return p.leader
	case *smallest:
		return p.leader
	}
	return 0
}

// TestEveryRunElects: the counts are worth nothing if the run did not end with
// one leader, the best live node, that all live nodes follow.
func TestEveryRunElects(t *testing.T) {
	for n := MinSize; n <= 24; n++ {
		c := half(n)
		tests := []struct {
			name     string
			scenario scenario
			leader   int
		}{
			{"classic all up", classicAllUp(1), n},
			{"classic worst", classicFrom(n, 1), n - 1},
			{"classic middle", classicFrom(n, c), n - 1},
			{"classic best", classicBest(n), n - 1},
			{"classic all detect", classicAllDetect(n), n - 1},
			{"enhanced worst", enhancedFrom(n, 1), n - 1},
			{"enhanced no candidates", enhancedNoCandidates(n), n - c},
			{"enhanced best", enhancedBest(n), n - 1},
			{"enhanced all detect", enhancedAllDetect(n), n - 1},
			{"smallest all up", smallestAllUp(n), 1},
			{"smallest worst", smallestFrom(n, shortcut), 2},
			{"smallest no shortcut", smallestFrom(n, noShortcut), 2},
			{"smallest best", smallestFrom(2, shortcut), 2},
			{"smallest all detect", smallestAllDetect(n), 2},
			{"classic best joins", classicJoin(n), n},
			{"classic worst joins", classicJoin(1), n},
			{"enhanced candidate joins", enhancedJoin(n, n-1), n},
			{"enhanced ordinary joins", enhancedJoin(n, 1), n},
			{"enhanced best joins", enhancedJoin(n, n), n},
			{"smallest minimum joins", smallestJoin(1, 1), 1},
			{"smallest best joins", smallestJoin(1, 0), 1},
			{"smallest worst joins", smallestJoin(n, 0), 1},
		}
		for _, test := range tests {
			net := test.scenario.set(n)
			net.run()
			for id := 1; id <= n; id++ {
				if got := leaderOf(net.processes[id]); !net.dead[id] && got != test.leader {
					t.Errorf("%s, n=%d: node %d follows %d, want %d", test.name, n, id, got, test.leader)
				}
			}
		}
	}
}

// TestClassicStartsAgain: the winner dies after it has answered (CE3), and the
// next best leads.
func TestClassicStartsAgain(t *testing.T) {
	const n = 6
	net := classicFrom(n, 1).set(n)
	net.step() // all were asked and have answered
	net.dead[n-1] = true
	net.run()
	for id := 1; id <= n-2; id++ {
		if got := leaderOf(net.processes[id]); got != n-2 {
			t.Errorf("node %d follows %d, want %d", id, got, n-2)
		}
	}
}

// TestSilenceMakesAJoinerStand: an ordinary node of the enhanced Bully finds no
// candidate that could tell it who leads.
func TestSilenceMakesAJoinerStand(t *testing.T) {
	const n = 6
	s := enhancedJoin(n, 1)
	s.dead = []int{4, 5, 6}
	net := s.set(n)
	net.run()
	if got := leaderOf(net.processes[1]); got != 3 {
		t.Errorf("the joiner follows %d, want 3, the best that is alive", got)
	}
}

// TestRunsRepeat: the same scenario sends the same, message by message.
func TestRunsRepeat(t *testing.T) {
	for _, s := range []scenario{classicAllDetect(17), enhancedAllDetect(17), smallestAllDetect(17)} {
		if a, b := s.run(17), s.run(17); a != b {
			t.Errorf("two runs sent %+v and %+v", a, b)
		}
	}
}

// TestRuleSix: the worst node takes itself for the leader. Who is better says so
// again for each worse one that it hears; in the end all follow the best.
func TestRuleSix(t *testing.T) {
	for n := 4; n <= 14; n++ {
		net := scenario{algorithm: newSmallest(noShortcut), dead: []int{1}}.set(n)
		net.toAll(coordinator, n, n)
		net.run()
		if got, want := net.sent[coordinator].Broadcast, 1<<(n-2); got != want {
			t.Errorf("n=%d: %d announcements, want %d", n, got, want)
		}
		for id := 2; id <= n; id++ {
			if got := leaderOf(net.processes[id]); got != 2 {
				t.Errorf("n=%d: node %d follows %d, want 2", n, id, got)
			}
		}
	}
}

// TestEnhancedJoinerBetterThanTheLeader is rule 4c, which views that differ make
// reachable: whom the candidates follow is worse than the joiner, which holds
// one election, however many tell it so.
func TestEnhancedJoinerBetterThanTheLeader(t *testing.T) {
	const n = 6
	net := scenario{algorithm: newEnhanced(2), joiner: 3}.set(n)
	net.run()
	if got := net.sent[cid].Sent; got != 3 {
		t.Errorf("%d candidates told who leads, want 3", got)
	}
	if got := net.sent[election].Broadcast; got != 1 {
		t.Errorf("the joiner asked %d times, want once", got)
	}
	if got := leaderOf(net.processes[3]); got != n {
		t.Errorf("the joiner follows %d, want %d", got, n)
	}
}

// TestEnhancedStarterHearsOfAnother: who is told of a coordinator while it still
// waits for answers announces nobody.
func TestEnhancedStarterHearsOfAnother(t *testing.T) {
	net := enhancedFrom(6, 1).set(6)
	net.toAll(coordinator, 5, 5)
	net.run()
	if got := net.sent[coordinator].Broadcast; got != 1 {
		t.Errorf("%d announcements, want the one that was made already", got)
	}
}

// TestEnhancedTakesTheBestAnswer: not the last.
func TestEnhancedTakesTheBestAnswer(t *testing.T) {
	net := enhancedFrom(6, 1).set(6)
	net.flying = []message{{kind: answer, from: 5, to: 1}, {kind: answer, from: 4, to: 1}}
	net.run()
	if got := leaderOf(net.processes[1]); got != 5 {
		t.Errorf("the starter announced %d, want 5", got)
	}
}

// TestAskedAgainWaitsAnew: without the guard, a deadline counts from the last
// start.
func TestAskedAgainWaitsAnew(t *testing.T) {
	net := scenario{algorithm: newUnguarded, dead: []int{4}, starters: []int{1}}.set(4)
	for net.now < 3 { // node 3 was asked by 1 and, a unit later, by 2
		net.step()
	}
	if got := net.sent[coordinator].Broadcast; got != 0 {
		t.Error("node 3 announced itself by its first deadline")
	}
	net.step()
	if got := net.sent[coordinator].Broadcast; got != 1 {
		t.Errorf("%d announcements by the second deadline, want 1", got)
	}
}
