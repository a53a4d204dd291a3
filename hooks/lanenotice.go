package hooks

import (
	"slices"
	"time"
)

// The notifications' lane.

// onNotice keeps the newest event of each notification kind; an older one that has not run is
// superseded (docs/hooks.md). The newest has the whole state.
func (l *Lanes) onNotice(req request) {
	if l.isHushed {
		l.refuse(req, ErrStopping)
		return
	}
	if i := slices.IndexFunc(l.notices, func(old request) bool { return old.Kind == req.Kind }); i >= 0 {
		l.refuse(l.notices[i], errSuperseded)
		l.notices = slices.Delete(l.notices, i, i+1)
	}
	l.notices = append(l.notices, req)
}

// hush ends the notification that runs and drops those that wait, for good: they are about a
// cluster that nobody looks at any more.
func (l *Lanes) hush(now time.Time) {
	l.isHushed = true
	for _, req := range l.notices {
		l.refuse(req, ErrStopping)
	}
	l.notices = nil
	if l.notice != nil {
		l.cut(now, l.notice, ErrStopping, time.Time{})
	}
}
