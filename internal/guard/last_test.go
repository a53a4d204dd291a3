package guard

import "testing"

// A guard that ends while renewals are on their way to it has told how its command
// ended all the same (unix(7): the reader of a socket that was closed with unread
// messages gets ECONNRESET first).
func TestTheLastReportIsNotLost(t *testing.T) {
	r := newRig(t)
	for range 20 {
		g := r.start(r.settings("exit 3").config())
		for report := (Report{}); report.Stage != Ended; report = g.Report() {
			g.Renew(clock().Add(patience))
		}
		if report := r.wait(g); report.Exit != 3 || report.Err != "" {
			t.Fatalf("the report is %+v", report)
		}
	}
}
