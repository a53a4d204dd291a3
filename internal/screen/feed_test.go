package screen

import (
	"testing"
	"testing/synctest"
	"time"
)

// What ask panics with comes out where the answer is taken.
func TestFeedHandsPanicsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		feed := Feed(t.Context(), time.Second, func() int {
			if asked++; asked == 3 {
				panic("the third")
			}
			return asked
		})
		begun := time.Now()
		if a, b := (<-feed)(), (<-feed)(); a != 1 || b != 2 || time.Since(begun) != time.Second {
			t.Errorf("answers %d, %d after %v", a, b, time.Since(begun))
		}
		defer func() {
			if p := recover(); p != "the third" {
				t.Errorf("panic %v", p)
			}
		}()
		(<-feed)()
	})
}
