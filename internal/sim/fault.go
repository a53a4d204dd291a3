package sim

// Fault is a kind of thing that goes wrong. Each is counted when it takes
// effect, not when it is planned.
type Fault uint8

// The faults, and what few clusters have, from OddTimers on. The last group is beyond
// what is promised.
const (
	Loss Fault = iota // network: a datagram is lost
	BurstLoss
	Duplicate
	Reorder // a datagram overtakes another of its sender's to the same host
	DelaySpike
	OneWayCut
	PairCut
	ChainCut  // hosts reach only their neighbours
	LinksCut  // between some pairs, for good
	LongTrips // of all datagrams, the whole schedule
	Partition
	CutOff // one host from all others
	Heal
	Truncated
	BitFlip
	Replay // of this or an earlier life of its sender

	FalseDead // failure detector
	NeverDead
	Flapping
	LateDetector
	LeaveBeforeJoin
	JoinBeforeLeave
	MissedRestart
	StaleLeaderRecord
	PoorHealth

	TetherEnds // the kernel: of a process whose host lives
	PortRefuses
	LinkDown

	Crash // process
	CrashBeforeSave
	CrashAfterSave
	CrashBetweenSends
	PowerLoss
	QuickRestart
	Restart
	RestartElsewhere
	TotalRestart
	Freeze
	Suspend
	StallsInStep // frozen or suspended between two effects of a step
	LateOrder    // its become hook is not started, since its lease is nearly over, or its leadership

	DiskFull // disk
	DiskError
	DiskSlow
	LostWrite
	TornWrite
	Wiped

	HookSlow // hooks
	HookStuck
	HookFails
	HookUnstarted // it cannot be run, or started
	HookHangs     // while it is started
	HookKilled
	HeldOn // a leadership begins while a failed lose hook elsewhere may have released nothing

	KeeperLose // the keeper runs the lose hook in the agent's stead
	KeeperSlow
	KeeperDies
	KeeperCut         // between two effects
	BothDie           // the keeper, while the agent is dead or frozen
	KeeperDiesSending // between two copies of a will
	StartsBeside      // an agent, before the keeper of its last life is done
	Borrowed          // a lease
	WillSent
	WillVoid // since the lose hook failed, or somebody has borrowed the lease

	ResourceRefused // resources: one does not begin
	ResourceHangs   // in its beginning
	ResourceSticks  // in its end
	ResourceRival
	ResourceLost
	ResourceLinkGoes
	ResourceStray // put on a host by hand
	ResourcesChanged
	ResourceHandsOver
	ResourceHeldOn   // others have an address while it cannot be ended here
	ResourceByKernel // others have an address while the kernel has it here yet

	OpStepDown // operator
	OpHandOver
	OpForget
	OpLeave
	OpReprioritise
	OpMaintain
	Unlisted // a host is taken out of the host lists of the others

	CheckFails // a check of a host
	BarredInPeace
	CheckFlaps // a run says what is not so
	CheckHangs
	CheckStartHangs
	CheckUnstarted
	CheckSticks // after KILL

	ClockDrift // the whole schedule
	ClockSlewed
	MixedSettings
	MixedMode
	NearCounterLimit

	OddTimers // settings: heartbeat, lease and stop budget from all over their ranges
	LongLease // of more than profile wan's
	OddSettle
	OddPreemptDelay
	OddTakeoverDelay
	OddCandidateSet
	KnownMinimum
	MinMembers // in quorum mode

	LateTimers // hosts
	LateJoin
	LongDark   // links are down for long, also all at once
	EndsDark   // all links go when all was well
	SlowRejoin // of memberlist
	SurplusVoters
	ExpectRises
	ExpectFalls
	WipedUnformed // before the roster is formed
	TetherForged  // ended by somebody between
	Guessed       // a datagram that somebody makes up who has read none
	Forged        // one that somebody changes, or sends elsewhere, who has read all
	Impersonated  // by a host with the cluster's key
	TetherHangs   // stays open though the process is gone

	HandshakeLost   // sessions: a datagram that begins one
	KeysSwapped     // all begin with the other key, and replace all sessions
	SessionsRenewed // of one host, which begins others

	ClockBeyond // beyond the promise
	SlewBeyond
	VMPause
	LyingSync
	Restored
	Clone
	SecondRoster // so many voters have lost their roster that another may form

	faultKinds
)

var faultNames = [faultKinds]string{
	Loss: "loss", BurstLoss: "burst-loss", Duplicate: "duplicate", Reorder: "reorder", DelaySpike: "delay-spike",
	OneWayCut: "one-way-cut", PairCut: "pair-cut", ChainCut: "chain-cut", LinksCut: "links-cut", LongTrips: "long-trips", Partition: "partition", CutOff: "cut-off", Heal: "heal",
	Truncated: "truncated", BitFlip: "bit-flip", Replay: "replay",
	FalseDead: "false-dead", NeverDead: "never-dead", Flapping: "flapping", LateDetector: "late-detector",
	LeaveBeforeJoin: "leave-before-join", JoinBeforeLeave: "join-before-leave", MissedRestart: "missed-restart",
	StaleLeaderRecord: "stale-leader-record", PoorHealth: "poor-health",
	TetherEnds: "tether-ends", PortRefuses: "port-refuses", LinkDown: "link-down",
	Crash: "crash", CrashBeforeSave: "crash-before-save", CrashAfterSave: "crash-after-save", CrashBetweenSends: "crash-between-sends",
	PowerLoss: "power-loss", QuickRestart: "quick-restart", Restart: "restart", RestartElsewhere: "restart-elsewhere",
	TotalRestart: "total-restart", Freeze: "freeze", Suspend: "suspend", StallsInStep: "stalls-in-step", LateOrder: "late-order",
	DiskFull: "disk-full", DiskError: "disk-error", DiskSlow: "disk-slow", LostWrite: "lost-write", TornWrite: "torn-write", Wiped: "wiped",
	HookSlow: "hook-slow", HookStuck: "hook-stuck", HookFails: "hook-fails", HookUnstarted: "hook-unstarted", HookHangs: "hook-hangs", HookKilled: "hook-killed",
	HeldOn: "held-on", KeeperLose: "keeper-lose",
	KeeperSlow: "keeper-slow", KeeperDies: "keeper-dies", KeeperCut: "keeper-cut", BothDie: "both-die", KeeperDiesSending: "keeper-dies-sending",
	StartsBeside: "starts-beside", Borrowed: "borrowed", WillSent: "will-sent", WillVoid: "will-void",
	ResourceRefused: "resource-refused", ResourceHangs: "resource-hangs", ResourceSticks: "resource-sticks", ResourceRival: "resource-rival", ResourceLost: "resource-lost",
	ResourceLinkGoes: "resource-link-goes", ResourceStray: "resource-stray", ResourcesChanged: "resources-changed", ResourceHandsOver: "resource-hands-over",
	ResourceHeldOn: "resource-held-on", ResourceByKernel: "resource-by-kernel",
	OpStepDown: "step-down", OpHandOver: "hand-over", OpForget: "forget", OpLeave: "leave", OpReprioritise: "reprioritise", OpMaintain: "maintain", Unlisted: "unlist", CheckFails: "check-fails", BarredInPeace: "barred-in-peace",
	CheckFlaps: "check-flaps", CheckHangs: "check-hangs", CheckStartHangs: "check-start-hangs", CheckUnstarted: "check-unstarted", CheckSticks: "check-sticks",
	ClockDrift: "clock-drift", ClockSlewed: "clock-slewed", MixedSettings: "mixed-settings", MixedMode: "mixed-mode", NearCounterLimit: "near-counter-limit",
	OddTimers: "odd-timers", LongLease: "long-lease", OddSettle: "odd-settle", OddPreemptDelay: "odd-preempt-delay",
	OddTakeoverDelay: "odd-takeover-delay", OddCandidateSet: "odd-candidate-set", KnownMinimum: "known-minimum", MinMembers: "min-members",
	LateTimers: "late-timers", LateJoin: "late-join", LongDark: "long-dark", SlowRejoin: "slow-rejoin", EndsDark: "ends-dark",
	SurplusVoters: "surplus-voters", ExpectRises: "expect-rises", ExpectFalls: "expect-falls", WipedUnformed: "wiped-unformed",
	Guessed: "guessed", Forged: "forged", Impersonated: "impersonated", TetherForged: "tether-forged", TetherHangs: "tether-hangs",
	HandshakeLost: "handshake-lost", KeysSwapped: "keys-swapped", SessionsRenewed: "sessions-renewed",
	ClockBeyond: "clock-beyond", SlewBeyond: "slew-beyond", VMPause: "vm-pause", LyingSync: "lying-sync", Restored: "restored", Clone: "clone", SecondRoster: "second-roster",
}

// String gives the fault's word.
func (f Fault) String() string {
	if f < faultKinds {
		return faultNames[f]
	}
	return "unknown"
}

// Faults counts how often each kind took effect; index it by Fault.
type Faults [faultKinds]uint64

// Add adds the counts of another schedule.
func (f *Faults) Add(other *Faults) {
	for kind, count := range other {
		f[kind] += count
	}
}

func (w *World) fired(f Fault) { w.faults[f]++ }
