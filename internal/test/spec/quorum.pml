/* Quorum mode: claim, grant, lease and resign of three voters. Safety only; see README.md.
 *
 * Every event of a node is one atomic step (d_step). That is no loss: a step saves, then sends; a crash
 * between the two is the crash after it with the frames lost, and one before the save is the crash
 * before the step. A node may also not step for as long as it likes while time passes: it is frozen,
 * slow, or cut off, and acts late on what it finds. -DBREAK_... takes one rule away. */

/* ---- Constants that mirror the code; spec_test.go compares them ---- */
#define DRIFT_PERCENT    1  /* lease.Drift, 0.01 */
#define LEASE_HEARTBEATS 8  /* election.Config.Lease's default, in heartbeats */
#define STOP_SHARE       4  /* election.Config.StopBudget's default is Lease/STOP_SHARE */

/* ---- Time ----
 *
 * A tick is true time and passes for all at once; timers count the ticks that are left. What a node
 * measures by its own clock takes up to DRIFT ticks more (slow clock) or less (fast clock). Only the
 * worst case is run, slow for who leads and fast for who waits: a shorter lease does nothing that the
 * longer one cannot (a leader may resign, an acknowledgement may be lost, at any time), and a longer
 * wait refuses what might have been lost as well. One tick is Lease/NOMINAL; with NOMINAL 4 that is the
 * stop budget, and the lease asserted here is all of it: the stop budget is the agent's to spend.
 * A drift of one tick is far above 1 %. What counts is that the formulas of package lease hold to the
 * tick: LEADER and WAIT are LeaderLength and WaitLength to first order in the drift, and a slow LEADER
 * lasts exactly as long as a fast NOMINAL, as L(1-r)/(1+r) / (1-r) = L / (1+r) does. */
#ifndef NOMINAL
#define NOMINAL 3           /* the lease and the claim's grant, G = L (protocol 2.5) */
#endif
#define DRIFT   1
#define LEADER  (NOMINAL - 2*DRIFT)  /* lease.LeaderLength: what the leader uses of it */
#define WAIT    (NOMINAL + 2*DRIFT)  /* lease.WaitLength: hold, how long a rebooted voter grants nothing */

#ifdef BREAK_MARGIN
#define ACT  (NOMINAL + DRIFT)  /* broken: the leader uses the nominal length, by its slow clock */
#else
#define ACT  (LEADER + DRIFT)   /* the true time that a slow leader acts after sending */
#endif
#define KEEP (NOMINAL - DRIFT)  /* the true time that a fast voter keeps a promise after receipt */
#ifdef BREAK_HOLD
#define HOLD 0                  /* broken: a rebooted voter grants at once */
#else
#define HOLD KEEP               /* the least that M5 needs; WAIT, by a fast clock, is longer still */
#endif

/* ---- Bounds ---- */
#ifdef BREAK_QUORUM
#define NEED 1  /* broken: one grant, its own, is enough */
#else
#define NEED 2  /* a majority of the voters, never of the live ones (4.4) */
#endif
#ifndef MAXC
#define MAXC  3 /* counters 1..MAXC, at most 3; who cannot mint a higher one does not claim */
#endif
#ifndef SLOTS
#define SLOTS 2 /* frames in flight at once, 2 or 3 */
#endif

/* ---- State ---- */
#define NONE 3  /* no node */
#define IDLE  0 /* follows, waits or votes */
#define CLAIM 1 /* has announced its epoch, collects grants */
#define LEAD  2 /* acts */

#define N    3  /* voters */

typedef Node {
	/* On disk. */
	byte disk;      /* highest counter saved */
	byte vote;      /* who got the grant for counter disk; an older vote never matters again */
	/* In memory. */
	byte max;       /* highest counter followed or granted: above disk while the disk takes no writes */
	byte role;
	byte epoch;     /* counter of the own epoch, unless IDLE */
	byte expiry[N]; /* per voter, itself included: time left of its grant or acknowledgement */
	byte to;        /* the promise: to whom, */
	byte why;       /* for which counter, */
	byte keep;      /* and how much longer */
	byte hold;      /* time left of the silence after a reboot */
	byte tomb[N];   /* per owner, the counter that it resigned, while it can still matter */
}
Node n[N];

/* The network is a set of frames: delivered in any order, lost, doubled, late by any time. A frame
 * carries the time left of the lease that it or its answer is worth, and loses it on the way: so
 * an acknowledgement counts from the SENDING of what it answers, as the echoed number does. */
short net[SLOTS]; /* 0 is an empty slot; sorted, so that a set has one form */

#define T_CLAIM  1 /* COORDINATOR, phase claim */
#define T_BEAT   2 /* HEARTBEAT of an active leader */
#define T_ACK    3 /* GRANT or HB_ACK: both say "promised, from my receipt on" */
#define T_RESIGN 4

/* 3 bits type, 2 from, 2 to, 2 counter, 3 time left. */
#define FRAME(t, f, d, c, l) (((t) << 9) | ((f) << 7) | ((d) << 5) | ((c) << 3) | (l))
#define TYPE(m)  ((m) >> 9)
#define FROM(m)  (((m) >> 7) & 3)
#define DEST(m)  (((m) >> 5) & 3)
#define COUNT(m) (((m) >> 3) & 3)
#define LEFT(m)  ((m) & 7)

byte owner[MAXC+1] = NONE; /* ghost: who was active with each counter, ever (S3) */

/* Scratch of a step, not part of the state. */
#ifdef SHORTEST /* breadth first, which allows nothing hidden; every step leaves them zero */
#define hidden
#endif
hidden byte x; hidden byte y; hidden byte count; hidden byte rest; hidden byte from; hidden byte c;
hidden short frame;

/* ---- Network ---- */
inline sort() { /* one insertion round from the end: only the last slot may be out of order */
	x = SLOTS - 1;
	do
	:: x > 0 && net[x] > net[x-1] -> frame = net[x]; net[x] = net[x-1]; net[x-1] = frame; x--
	:: else -> break
	od
}

#define FULL (net[SLOTS-1] != 0)

inline put(m) { /* lost if there is no room; a copy of what is on its way is no second frame */
	frame = m;
	x = 0;
	do
	:: x < SLOTS && net[x] != frame -> x++
	:: else -> break
	od;
	if
	:: x == SLOTS && !FULL -> net[SLOTS-1] = frame; sort()
	:: else
	fi
}

inline drop(k) {
	x = k;
	do
	:: x < SLOTS - 1 -> net[x] = net[x+1]; x++
	:: else -> break
	od;
	net[SLOTS-1] = 0
}

/* ---- What is promised ---- */
#define ZERO(a) a[0] = 0; a[1] = 0; a[2] = 0

inline held(i) { /* count := acknowledgements in force at i */
	count = (n[i].expiry[0] > 0) + (n[i].expiry[1] > 0) + (n[i].expiry[2] > 0)
}

/* A tombstone below the counter is moot: that epoch is stale anyway. */
#define BURY(v, o, counter) n[v].tomb[o] = (n[v].tomb[o] < counter -> 0 : n[v].tomb[o])

inline save(v, counter, voted) { /* S4: what is on disk never decreases */
	assert(counter >= n[v].disk && counter >= n[v].max);
	n[v].disk = counter;
	n[v].max = counter;
	n[v].vote = voted;
	BURY(v, 0, counter); BURY(v, 1, counter); BURY(v, 2, counter)
}

/* S4: nothing is shown, in a frame or a role, that a crash would forget. */
#define SAVED(i, counter) assert(n[i].disk >= counter)

/* ---- Steps of a node ---- */
inline idle(i) {
	n[i].role = IDLE;
#ifndef BREAK_REVIVE
	n[i].epoch = 0;
	ZERO(n[i].expiry)
#endif
}

inline promise(v, whom, counter) { /* from receipt on; ends what it itself had claimed (M4) */
	n[v].to = whom;
	n[v].why = counter;
	n[v].keep = KEEP;
	if :: whom != v && n[v].role != IDLE -> idle(v) :: else fi
}

inline release(i) { n[i].to = NONE; n[i].why = 0; n[i].keep = 0 }

/* 4.2 mint, and M4: the claimant is a voter like any other. Its own hold and its own promise
 * to another bind it, and its own vote is durable before the claim is sent. */
#ifdef BREAK_SELF /* broken: claims although it has promised itself to another */
#define FREE(i) true
#else
#define FREE(i) (n[i].keep == 0 || n[i].to == i)
#endif
#define MAY_CLAIM(i, skip) (n[i].role == IDLE && n[i].hold == 0 && FREE(i) && n[i].max + skip < MAXC)
#define KNOWN(skip) (n[a].max >= n[i].max + skip || n[b].max >= n[i].max + skip)

inline claim(i, counter) {
	c = counter;
#ifdef BREAK_SAVE /* broken: announced before it is saved */
	n[i].max = c;
#else
	save(i, c, i);
#endif
	n[i].role = CLAIM;
	n[i].epoch = c;
	ZERO(n[i].expiry);
	n[i].expiry[i] = ACT;
	promise(i, i, c);
	SAVED(i, c);
	lead(i)
}

/* Active as soon as a majority's grants are in force. */
inline lead(i) {
	held(i);
	if
	:: n[i].role == CLAIM && count >= NEED ->
		n[i].role = LEAD;
		assert(owner[n[i].epoch] == NONE || owner[n[i].epoch] == i); /* S3 */
		owner[n[i].epoch] = i;
#ifdef REACH
		assert(n[i].epoch < MAXC); /* not a rule: its failure shows that the last counter is led with */
#endif
		/* S1: at most one node acts at any instant. LEAD implies a valid lease, see gate. */
		assert((n[0].role == LEAD) + (n[1].role == LEAD) + (n[2].role == LEAD) <= 1)
	:: else
	fi
}

/* CLAIM or HEARTBEAT, or a repetition, to d. Itself receives it at once: its own promise and its own
 * acknowledgement run anew (M4). */
inline announce(i, d) {
	SAVED(i, n[i].epoch);
	n[i].expiry[i] = ACT;
	promise(i, i, n[i].epoch);
	put(FRAME((n[i].role == LEAD -> T_BEAT : T_CLAIM), i, d, n[i].epoch, ACT))
}

/* Step down or give up a claim, then say so to some of the others: the act ends before the RESIGN is
 * sent (4.6). Also how a claimant gives way to a better one (4.3, exception of rule 3). */
inline resign(i, p, q) {
	c = n[i].epoch;
	if :: n[i].to == i && n[i].why == c -> release(i) :: else fi;
#ifndef BREAK_EARLY /* broken: says so while it still acts */
	idle(i);
#endif
	put(FRAME(T_RESIGN, i, p, c, 0));
	put(FRAME(T_RESIGN, i, q, c, 0))
}

/* Memory is lost, the disk is not; promises may still run, hence the hold. A node that is down for
 * longer is one that restarted and does not step. */
#ifdef NOCRASH /* for counter-examples that need none */
#define LOSES(i) false
#else
#define LOSES(i) (n[i].role != IDLE || n[i].keep > 0 || n[i].max > n[i].disk || n[i].tomb[0] + n[i].tomb[1] + n[i].tomb[2] > 0)
#endif
inline crash(i) {
	ZERO(n[i].expiry);
	ZERO(n[i].tomb);
	idle(i);
	release(i);
	n[i].max = n[i].disk;
	n[i].hold = HOLD;
#ifdef BREAK_VOTE /* broken: the vote was in memory only */
	n[i].vote = NONE;
#endif
}

/* Protocol 4.3: 1 HOLD; 2 STALE, or its owner resigned it, or the vote of this counter was another's;
 * 3 LEASED: promised to another. What is left is a GRANT. */
#define GRANTS(i) (n[i].hold == 0 && \
	c >= n[i].max && c > n[i].tomb[from] && (c > n[i].disk || n[i].vote == NONE || n[i].vote == from) && \
	(n[i].keep == 0 || n[i].to == from))

#ifdef BREAK_LOWER
#define FOLLOWS(i) true /* broken: an old leader's heartbeat still counts */
#else
#define FOLLOWS(i) (c >= n[i].max && c > n[i].tomb[from]) /* mayFollow: by epoch, the vote and Accepted, which max is all of */
#endif

/* The answer is worth what is left of what it answers. */
#define answer(i) put(FRAME(T_ACK, i, from, c, rest))

inline receive(i) {
	c = COUNT(frame); from = FROM(frame); rest = LEFT(frame);
	if
	:: TYPE(frame) == T_CLAIM ->
		if
		:: GRANTS(i) -> save(i, c, from); promise(i, from, c); answer(i) /* 4: durable, then sent */
		:: else
		fi
	:: TYPE(frame) == T_BEAT ->
		if
		:: FOLLOWS(i) -> /* the hold does not matter here: this leader has its majority */
			if :: c > n[i].disk -> save(i, c, NONE) :: else fi;
			promise(i, from, c);
			answer(i)
		:: else
		fi
	:: TYPE(frame) == T_ACK ->
		if
#ifdef BREAK_REVIVE /* broken: a late acknowledgement brings an ended epoch back */
		:: n[i].role == IDLE && n[i].epoch == c && rest > 0 -> n[i].expiry[from] = rest; n[i].role = CLAIM; lead(i)
#endif
		:: n[i].role != IDLE && n[i].epoch == c -> /* an older one never shortens a newer */
#ifdef BREAK_ANCHOR
			n[i].expiry[from] = ACT; /* broken: counted from the acknowledgement's receipt */
#else
			if :: rest > n[i].expiry[from] -> n[i].expiry[from] = rest :: else fi;
#endif
			lead(i)
		:: else
		fi
	:: TYPE(frame) == T_RESIGN ->
		if :: c >= n[i].max && c > n[i].tomb[from] -> n[i].tomb[from] = c :: else fi;
		if
#ifdef BREAK_RESIGN /* broken: whatever epoch was resigned */
		:: n[i].to == from && n[i].keep > 0 -> release(i)
#else
		:: n[i].to == from && n[i].why == c -> release(i)
#endif
		:: else
		fi
	fi
}

/* Its disk takes no writes: it obeys a claim or heartbeat that it would have to write down, and
 * says nothing. A crash makes it forget. */
#ifdef GOODDISK /* for fewer states */
#define MUTE(k, i) false
#else
#define MUTE(k, i) (MINE(k, i) && TYPE(net[k]) <= T_BEAT && COUNT(net[k]) > n[i].disk)
#endif
inline obey(i) {
	c = COUNT(frame); from = FROM(frame);
	if
	:: TYPE(frame) == T_CLAIM && GRANTS(i) || TYPE(frame) == T_BEAT && FOLLOWS(i) -> n[i].max = c; promise(i, from, c)
	:: else
	fi
}

#define AGE(t) t = (t > 0 -> t - 1 : 0)

/* Every step of a node begins with the look at its clock (R13, the gate). So a node whose lease is
 * over is one that has stepped down, whenever it comes to notice; it is noted here at once. */
inline gate(i) {
	held(i);
	if
	:: n[i].role == LEAD && count < NEED -> idle(i)
	:: n[i].role == CLAIM && n[i].expiry[i] == 0 -> idle(i) /* its own grant is over (M4) */
	:: else
	fi
}

inline older(i) {
	AGE(n[i].expiry[0]); AGE(n[i].expiry[1]); AGE(n[i].expiry[2]);
	AGE(n[i].keep); AGE(n[i].hold);
	if :: n[i].keep == 0 -> release(i) :: else fi;
#ifndef BREAK_GATE /* broken: believes its role, and not its clock */
	gate(i)
#endif
}

#include "reduce.pml" /* tidy, which ends every step: what keeps the state space small */

inline tick() {
	older(0); older(1); older(2);
	x = 0;
	do
	:: x < SLOTS -> if :: LEFT(net[x]) > 0 -> net[x]-- :: else fi; x++
	:: else -> break
	od
}

#define MINE(k, i) (net[k] != 0 && DEST(net[k]) == i)

proctype Voter(byte i, a, b) {
	do
	/* Above its own counter and all it has heard, which is any that another has or had. Hearsay is
	 * no state: until it claims, it only makes a node refuse. */
	:: d_step { MAY_CLAIM(i, 0) -> claim(i, n[i].max + 1); tidy() }
	:: d_step { MAY_CLAIM(i, 1) && KNOWN(1) -> claim(i, n[i].max + 2); tidy() }
	:: d_step { MAY_CLAIM(i, 2) && KNOWN(2) -> claim(i, n[i].max + 3); tidy() }
	:: d_step { n[i].role != IDLE && !FULL -> announce(i, a); tidy() }
	:: d_step { n[i].role != IDLE && !FULL -> announce(i, b); tidy() }
	:: d_step { n[i].role != IDLE -> resign(i, a, b); tidy() }
	:: d_step { n[i].role != IDLE -> resign(i, b, a); tidy() } /* if there is room for one only */
	:: d_step { LOSES(i) -> crash(i); tidy() }
	:: d_step { MINE(0, i) -> frame = net[0]; drop(0); receive(i); tidy() }
	:: d_step { MINE(0, i) && !FULL -> frame = net[0]; receive(i); tidy() }
	:: d_step { MINE(1, i) -> frame = net[1]; drop(1); receive(i); tidy() }
	:: d_step { MINE(1, i) && !FULL -> frame = net[1]; receive(i); tidy() }
	:: d_step { MUTE(0, i) -> frame = net[0]; obey(i); tidy() }
	:: d_step { MUTE(1, i) -> frame = net[1]; obey(i); tidy() }
#if SLOTS > 2
	:: d_step { MUTE(2, i) -> frame = net[2]; obey(i); tidy() }
	:: d_step { MINE(2, i) -> frame = net[2]; drop(2); receive(i); tidy() }
	:: d_step { MINE(2, i) && !FULL -> frame = net[2]; receive(i); tidy() }
#endif
	od
}

/* Loss, and the time. */
proctype World() {
	do
	:: d_step { net[0] != 0 -> drop(0); tidy() }
	:: d_step { net[1] != 0 -> drop(1); tidy() }
#if SLOTS > 2
	:: d_step { net[2] != 0 -> drop(2); tidy() }
#endif
	:: d_step { true -> tick(); tidy() }
	od
}

init {
	atomic {
		n[0].vote = NONE; n[1].vote = NONE; n[2].vote = NONE;
		n[0].to = NONE; n[1].to = NONE; n[2].to = NONE;
		run World(); run Voter(0, 1, 2); run Voter(1, 0, 2); run Voter(2, 0, 1)
	}
}
