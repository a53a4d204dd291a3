package paper

const aboutTableI = `The paper's figures cannot be compared with each other: each algorithm has a scenario and a way
	of counting of its own.`

var tableI = []plan{
	{name: "Bully", paper: BySent, scenario: func(int) scenario { return classicAllUp(1) },
		note: `Nobody has crashed, so that even the leader which is said to have failed answers; the worst node starts.`},
	{name: "Enhanced Bully", paper: BySent, scenario: func(n int) scenario { return enhancedFrom(n, 1) },
		note: `The leader has crashed and is silent, but is asked, since it is one of the n/2 candidates (rounded up), and is
			told who leads. The worst node starts.`},
	{name: "Smallest id", paper: ByBroadcast, scenario: smallestAllUp,
		note: `Nobody has crashed, the worst node starts, the second minimum does not take its shortcut, and a broadcast is one
			message. No crash leads to these figures, since the crashed leader would not answer.`},
}

const aboutTableII = `The best node that is alive notices first, and announces itself. Counted alike, all three
	algorithms send the same.`

var tableII = []plan{
	{name: "Bully", paper: BySent, scenario: classicBest,
		note: `The crashed leader is not asked, unlike in Table I, but is told who leads.`},
	{name: "Enhanced Bully", paper: BySent, scenario: enhancedBest,
		note: `The crashed leader is not asked, unlike in Table I, but is told who leads.`},
	{name: "Smallest id", paper: ByBroadcast, scenario: func(int) scenario { return smallestFrom(2, shortcut) },
		note: `The second minimum announces itself, and a broadcast is one message.`},
}

const aboutEqual = `One node notices, and the crashed leader is treated like any other: it is asked if the algorithm asks
	nodes of its rank, and it is told who leads. The worst node is the last that would win: id 1, or n where the
	smallest id wins.`

var equalFooting = []plan{
	{name: "Classic, worst node", scenario: func(n int) scenario { return classicFrom(n, 1) },
		note: `Every live node comes to ask all better nodes.`},
	{name: "Classic, middle node", scenario: func(n int) scenario { return classicFrom(n, half(n)) },
		note: `The node with id n/2 (rounded up) notices; those below it have no part in the election.`},
	{name: "Classic, best node", scenario: func(n int) scenario { return classicFrom(n, n-1) },
		note: `The best live node asks the crashed leader alone, and then announces itself.`},
	{name: "Enhanced, worst node", scenario: func(n int) scenario { return enhancedFrom(n, 1) },
		note: `An ordinary node asks the candidates, and announces the best that answers.`},
	{name: "Enhanced, no candidate", scenario: enhancedNoCandidates,
		note: `All candidates have crashed, and the worst node asks the other ordinary ones in a second phase.`},
	{name: "Enhanced, best node", scenario: func(n int) scenario { return enhancedFrom(n, n-1) },
		note: `The best live candidate asks the crashed leader alone, and then announces itself.`},
	{name: "Smallest, worst node", scenario: func(n int) scenario { return smallestFrom(n, shortcut) },
		note: `The worst node asks all; the second minimum announces itself at once, the others answer.`},
	{name: "Smallest, no shortcut", scenario: func(n int) scenario { return smallestFrom(n, noShortcut) },
		note: `The worst node asks all, all answer, and it announces the best.`},
	{name: "Smallest, best node", scenario: func(int) scenario { return smallestFrom(2, shortcut) },
		note: `The second minimum announces itself and asks nobody.`},
}

const aboutStorm = `A failure detector tells everybody at about the same time, so that one starter is the exception. In
	the first three rows the leader has crashed, and all others notice at the same instant.`

var storms = []plan{
	{name: "Classic", scenario: classicAllDetect,
		note: `It is no worse than one starter in the worst case: a node that is asked starts anyway.`},
	{name: "Enhanced", scenario: enhancedAllDetect,
		note: `Without the paper's tie-breaker each starter asks the candidates and announces the winner to all.`},
	{name: "Smallest", scenario: smallestAllDetect,
		note: `As written, the second minimum announces itself when it notices, and again for each that asks it.`},
	{name: "Classic, no guard", scenario: unguardedAllUp, most: unguardedMax, only: func(t tally) Count { return t[election] },
		note: `Nobody has crashed, the worst node starts, and who is asked starts again even if it has started already. Only
			the Election messages are counted. They double with each node, so that it is run up to n = 20.`},
}

const aboutJoin = `All others are up and agree on a leader; n includes the node that comes up.`

var joins = []plan{
	{name: "Classic, best node", scenario: func(n int) scenario { return classicJoin(n) },
		note: `There is nobody to ask, and the joiner announces itself.`},
	{name: "Classic, worst node", scenario: func(int) scenario { return classicJoin(1) },
		note: `The joiner holds an election, and with it every other node.`},
	{name: "Enhanced, candidate", scenario: func(n int) scenario { return enhancedJoin(n, n-1) },
		note: `The second best node asks the one better candidate who leads, and is told.`},
	{name: "Enhanced, ordinary", scenario: func(n int) scenario { return enhancedJoin(n, 1) },
		note: `The worst node asks all candidates who leads, and each tells.`},
	{name: "Enhanced, best node", scenario: func(n int) scenario { return enhancedJoin(n, n) },
		note: `There is no better candidate to ask, and the joiner announces itself.`},
	{name: "Smallest, known best", scenario: func(int) scenario { return smallestJoin(1, 1) },
		note: `The joiner has the smallest id that may exist, knows it, and announces itself.`},
	{name: "Smallest, best node", scenario: func(int) scenario { return smallestJoin(1, 0) },
		note: `The joiner asks all, only the leader tells its id, and the joiner, which has a smaller one, announces itself.`},
	{name: "Smallest, worst node", scenario: func(n int) scenario { return smallestJoin(n, 0) },
		note: `The joiner asks all, the leader tells its id, and the joiner follows.`},
}

const aboutOurs = `Counted from the real election code on a simulated network. Heartbeats and probes are left out:
	they are the detection of failures, of which the papers count none either.`
