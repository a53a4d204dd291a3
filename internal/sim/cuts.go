package sim

import (
	"time"
)

func (w *World) cutSome(m *machine) {
	other := pick(w.rng, w.machines...)
	switch w.rng.IntN(6) {
	case 0:
		w.partition()
	case 1:
		w.chain()
	case 2:
		w.fired(CutOff)
		w.say(m, "cut off")
		for _, x := range w.machines {
			w.cutPair(m, x)
		}
	case 3:
		w.cutDirection(m)
	default:
		if other != m {
			w.fired(PairCut)
			w.say(m, "cut from n%d", other.number)
			w.cutPair(m, other)
		}
	}
	if w.rng.IntN(2) == 0 {
		w.after(w.upTo(w.stretch(pick(w.rng, time.Second, 12*time.Second))), w.heal)
	}
}

func (w *World) cutPair(a, b *machine) {
	if a != b {
		w.setCut(a, b, true)
		w.setCut(b, a, true)
	}
}

func (w *World) cutDirection(m *machine) {
	w.fired(OneWayCut)
	isOut, all := w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	only := pick(w.rng, w.machines...)
	for _, x := range w.machines {
		switch {
		case x == m || (!all && x != only):
		case isOut:
			w.setCut(m, x, true)
			w.say(m, "cut to n%d", x.number)
		default:
			w.setCut(x, m, true)
			w.say(x, "cut to n%d", m.number)
		}
	}
}

func (w *World) partition() {
	w.fired(Partition)
	isLeft := make([]bool, len(w.machines))
	for i := range isLeft {
		isLeft[i] = w.rng.IntN(2) == 0
	}
	w.say(nil, "partition %v", isLeft)
	for i, a := range w.machines {
		for j, b := range w.machines {
			if isLeft[i] != isLeft[j] {
				w.setCut(a, b, true)
			}
		}
	}
}

func (w *World) chain() {
	w.fired(ChainCut)
	w.say(nil, "only neighbours reach each other")
	for i, a := range w.machines {
		for j, b := range w.machines {
			if i < j-1 || j < i-1 {
				w.setCut(a, b, true)
			}
		}
	}
}

func (w *World) heal() {
	if !w.anyCut() {
		return
	}
	if w.raging {
		w.fired(Heal)
	}
	clear(w.net.cut)
	w.detector.dirty = true
	w.say(nil, "healed")
}
