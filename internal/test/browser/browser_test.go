package browser

import (
	"syscall"
	"testing"
)

const page = "data:text/html,<p id=said>here</p>"

// A browser that dies ends no test but those that had a tab of it: the next one starts another.
func TestADeadBrowserIsReplaced(t *testing.T) {
	dead := Open(t)
	if err := syscall.Kill(-dead.c.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-dead.c.gone
	b := Open(t)
	if b.c == dead.c || Open(t).c != b.c {
		t.Fatal("all tests after it share one other browser, and have another")
	}
	if said := b.Open(page, View{Width: 400, Height: 400}).Text("#said"); said != "here" {
		t.Errorf("the page says %q", said)
	}
}

// What is known of a tab ends with the test that opened it.
func TestAClosedTabIsForgotten(t *testing.T) {
	b := Open(t)
	t.Run("tab", func(t *testing.T) { b.For(t).Open(page, View{Width: 400, Height: 400}) })
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if len(b.c.events) != 0 {
		t.Errorf("%d tabs are listened to after their end", len(b.c.events))
	}
}
