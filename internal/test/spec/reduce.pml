/* What keeps the state space small. Each reduction is exact: it changes how many states there are, and
 * not which assertions can fail. */

/* Frames that can have no effect any more, whatever comes: as good as lost. A broken variant may not
 * take for useless what its flaw gives a meaning to. */
#define NODE n[DEST(net[y])]
#if defined(BREAK_ANCHOR) || defined(BREAK_REVIVE)
#define USELESS_ACK false
#else
#define USELESS_ACK (LEFT(net[y]) == 0 || NODE.role == IDLE || NODE.epoch != COUNT(net[y]))
#endif
#ifdef BREAK_LOWER
#define STALE false
#else
#define STALE (COUNT(net[y]) < NODE.disk) /* max and a tombstone may be forgotten */
#endif
#ifdef BREAK_RESIGN
#define USELESS_RESIGN false
#else
#define USELESS_RESIGN (COUNT(net[y]) < NODE.disk && (NODE.to != FROM(net[y]) || NODE.why != COUNT(net[y])))
#endif
#define USELESS (TYPE(net[y]) == T_ACK    && USELESS_ACK || \
	TYPE(net[y]) == T_RESIGN && USELESS_RESIGN || \
	TYPE(net[y]) <= T_BEAT   && STALE || \
	y > 0 && net[y] == net[y-1])

#ifdef SYMMETRY
/* The three voters follow the same rules, so a state and the same with other names are one: name them
 * in the order of what can be seen of each alone. In C for speed; pan -r shows a trail, spin -t does not. */
c_code {
	static int key(int i) {
		struct Node *v = &now.n[i];
		int whose = v->to == i ? 2 : v->to < N, voted = v->vote == i ? 2 : v->vote < N;
		int sum = v->expiry[0] + v->expiry[1] + v->expiry[2], tombs = v->tomb[0] + v->tomb[1] + v->tomb[2];
		return (((((((((v->role*4 + v->max)*4 + v->disk)*4 + v->epoch)*8 + v->keep)*8 + v->hold)*4 + v->why)*3 + whose)*3
			+ voted)*16 + sum)*16 + tombs;
	}
	static int renamed(int v, int i) { return v == i ? i+1 : v == i+1 ? i : v; }
	static void swap(int i) { /* i and i+1 */
		struct Node t = now.n[i];
		uchar b;
		int k;
		now.n[i] = now.n[i+1];
		now.n[i+1] = t;
		for (k = 0; k < N; k++) {
			struct Node *v = &now.n[k];
			b = v->expiry[i]; v->expiry[i] = v->expiry[i+1]; v->expiry[i+1] = b;
			b = v->tomb[i]; v->tomb[i] = v->tomb[i+1]; v->tomb[i+1] = b;
			v->to = renamed(v->to, i);
			v->vote = renamed(v->vote, i);
		}
		for (k = 0; k <= MAXC; k++)
			now.owner[k] = renamed(now.owner[k], i);
		for (k = 0; k < SLOTS; k++) {
			int m = now.net[k];
			if (m)
				now.net[k] = (m & ~0x1e0) | renamed(m >> 7 & 3, i) << 7 | renamed(m >> 5 & 3, i) << 5;
		}
	}
	static void canonical() {
		int i, k;
		for (i = 0; i < 3; i++)
			if (key(i & 1) < key((i & 1) + 1))
				swap(i & 1);
		for (i = 0; i < SLOTS; i++)
			for (k = 0; k < SLOTS - 1; k++)
				if (now.net[k] < now.net[k+1]) {
					short m = now.net[k];
					now.net[k] = now.net[k+1];
					now.net[k+1] = m;
				}
	}
}
#endif

/* After every step: drop what is useless, and forget who led with a counter that nobody has or can
 * mint any more. */
inline tidy() {
	y = 0;
	do
	:: y < SLOTS && net[y] != 0 && USELESS -> drop(y)
	:: y < SLOTS && !(net[y] != 0 && USELESS) -> y++
	:: y == SLOTS -> break
	od;
	y = 1;
	do
	:: y <= MAXC ->
		if
		:: n[0].disk >= y && n[1].disk >= y && n[2].disk >= y &&
		   n[0].epoch != y && n[1].epoch != y && n[2].epoch != y -> owner[y] = NONE
		:: else
		fi;
		y++
	:: else -> break
	od;
#ifdef SYMMETRY
	c_code { canonical(); };
#endif
	x = 0; y = 0; count = 0; rest = 0; from = 0; c = 0; frame = 0
}
