package jobs

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Logs and transcripts have these lines.
func TestTextOfEventsAndEffects(t *testing.T) {
	key := Key{Slot: 1780315200, Epoch: 4, Owner: here}
	run := Run{Key: key, Phase: Running, Attempt: 2}
	claim := Message{Kind: wire.JobClaim, Epoch: 4, Owner: here, Round: 9}
	query, part, witnessed := claim, claim, claim
	query.Kind, query.Place = wire.LedgerQuery, 1
	part.Kind, part.Place, part.Count = wire.LedgerPart, 1, 3
	witnessed.Kind, witnessed.Why = wire.JobWitness, ReasonTaken
	for _, c := range []struct {
		value interface{ String() string }
		want  string
	}{
		{Tick{}, "tick"},
		{Leading{Epoch: 4, Voters: []wire.ID{here, there}, Need: 2}, "leading epoch=4 voters=2 need=2"},
		{NotLeading{}, "not leading"},
		{Peers{[]wire.ID{there}}, "peers n=1"},
		{Heard{From: there, Message: claim, Known: known}, "heard from=02000000 JOB_CLAIM epoch=4/01000000 round=9"},
		{Merged{[]byte("abc")}, "merged bytes=3"},
		{Exited{Job: "a", Key: key, Exit: 3}, "exited job=a run=4/1780315200 exit=3"},
		{Exited{"a", key, 137, true}, "exited job=a run=4/1780315200 exit=137 killed"},
		{StartFailed{"a", key}, "start failed job=a run=4/1780315200"},
		{Ask{"a", 7}, "ask job=a"},
		{SetPaused{Job: "a", Paused: true, Token: 7}, "set paused=true job=a"},
		{SetPaused{Job: "a", FromNow: true, Token: 7}, "resume from now job=a"},
		{Unask{7}, "unask token=7"},
		{TableChanged{Jobs: []Job{{}}}, "table changed jobs=1"},
		{ClockSet{time.Hour}, "clock set by=1h0m0s"},
		{Closing{}, "closing"},
		{SaveFailed{}, "save failed"},
		{SaveRecovered{}, "save recovered"},
		{Save{[]byte("abc")}, "save bytes=3"},
		{Send{there, witnessed}, "send to=02000000 JOB_WITNESS epoch=4/01000000 round=9 why=taken"},
		{query, "LEDGER_QUERY epoch=4/01000000 round=9 place=1"},
		{part, "LEDGER_PART epoch=4/01000000 round=9 place=1 of 3"},
		{Begin{Job{Name: "a"}, run}, "begin job=a run=4/1780315200 running by 01000000 attempt=2"},
		{End{"a", key, Killed}, "end job=a run=4/1780315200 why=killed"},
		{Reply{7, run, nil}, "reply token=7 ok"},
		{Reply{7, run, ErrDisk}, `reply token=7 err="` + ErrDisk.Error() + `"`},
		{Noted{Decision{Job: "a", Run: run}}, "a: note [4/1780315200 running by 01000000 attempt=2] none"},
		{Refused{there, "ahead"}, "refused from=02000000 why=ahead"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	Tick{}.event() // these only mark their types
	Save{}.effect()
}

// Reasons are sent to other hosts: their numbers are for ever.
func TestReasonsKeepTheirNumbers(t *testing.T) {
	for why, want := range map[Reason]uint8{ReasonNone: 0, ReasonAhead: 6, ReasonSettled: 22, ReasonTaken: 23, ReasonOver: 24, ReasonDeposed: 25} {
		if uint8(why) != want {
			t.Errorf("%v is %d, want %d", why, why, want)
		}
	}
}

// FuzzHeard: whatever another host says, at whatever time, nothing panics, and
// what is saved and sent can be read again.
func FuzzHeard(f *testing.F) {
	claim := Claim{"a", 1, Run{Key: Key{Slot: 1780315200, Epoch: 5, Owner: there}, Phase: Claimed, Claimed: 1780315200005, Timeout: 600}}
	b, _ := claim.Append(nil)
	for kind := range uint8(5) {
		f.Add(20+kind, uint64(5), byte(2), uint32(1), uint8(0), uint64(7), uint16(0), uint16(1), b, int64(1))
	}
	f.Fuzz(func(t *testing.T, kind uint8, epoch uint64, owner byte, round uint32, why uint8, digest uint64, place, count uint16, payload []byte, ms int64) {
		s := NewScheduler(SchedulerConfig{Self: here, Table: tableOf(t, nil, "@every 10s")}, nil)
		now := clock("12:00")
		s.Step(now, Peers{[]wire.ID{there}})
		s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, there}, Need: 2})
		m := Message{Kind: wire.Kind(kind), Epoch: epoch, Owner: wire.ID{owner}, Round: round, Why: Reason(why), Digest: digest,
			Place: place, Count: count, Payload: string(payload)}
		for i := range 4 {
			now = now.Add(time.Duration(ms%20_000) * time.Millisecond)
			for _, effect := range s.Step(now, Heard{From: wire.ID{owner}, Message: m, Known: known}) {
				switch e := effect.(type) {
				case Save:
					if _, err := Parse(e.Bytes); err != nil {
						t.Fatalf("step %d saves what cannot be read: %v", i, err)
					}
				case Send:
					if len(e.Message.Payload) > wire.MaxPayload {
						t.Fatalf("step %d sends %v of %d bytes", i, e, len(e.Message.Payload))
					}
				}
			}
		}
	})
}
