package sidecar

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pair gives both ends of a socket.
func pair(t *testing.T, wake func()) (from, to *Conn) {
	t.Helper()
	ours, theirs, err := SocketPair("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	if from, err = NewConn(ours, nil); err == nil {
		to, err = NewConn(theirs, wake)
	}
	if err != nil {
		t.Fatal(err)
	}
	return from, to
}

// drained gives what came, as text+file.
func drained(t *testing.T, c *Conn) (came []string) {
	t.Helper()
	err := c.Drain(func(m Message, err error) (enough bool) {
		if err != nil {
			came = append(came, err.Error())
			return false
		}
		came = append(came, string(m.Text)+"+"+string(m.File))
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return came
}

func TestMessagesComeAsTheyWereSent(t *testing.T) {
	from, to := pair(t, nil)
	long := strings.Repeat("x", MaxMessage)
	for _, m := range []struct{ text, file []byte }{{[]byte("{}"), nil}, {[]byte("a"), []byte("b")}, {[]byte("c"), []byte{}}, {[]byte(long), nil}} {
		if err := from.Send(m.text, m.file); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := drained(t, to), []string{"{}+", "a+b", "c+", long + "+"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%.100q came", got)
	}
	for _, m := range []struct{ text, file []byte }{{nil, nil}, {[]byte(long + "x"), nil}, {[]byte("a"), make([]byte, MaxFile+1)}} {
		if err := from.Send(m.text, m.file); err == nil {
			t.Errorf("%d bytes with a file of %d were sent", len(m.text), len(m.file))
		}
	}
}

// Where not all descriptors had room the message is refused, and what came of them is closed.
func TestAMessageThatWasCut(t *testing.T) {
	_, c := pair(t, nil)
	if _, err := c.open(1, unix.MSG_CTRUNC, nil); !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}

// While descriptors wait to be closed no more are taken than there is room for; then the rest is.
func TestDescriptorsWaitForTheirCloser(t *testing.T) {
	woken := make(chan struct{}, 1)
	from, to := pair(t, func() { woken <- struct{}{} })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	to.closer.isOn = true // it hangs at one that lingers
	some := make([]int, 100)
	for i := range some {
		some[i] = int(null.Fd())
	}
	const sent = 5
	for range sent {
		if err := from.send([]byte("a"), unix.UnixRights(some...)); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := len(drained(t, to)), len(drained(t, to)); n != mostWaiting/len(some)+1 || m != 0 {
		t.Errorf("%d messages were taken, and %d more", n, m)
	}
	to.closer.closeAll()
	select {
	case <-woken:
	default:
		t.Error("nobody is told that there is room again")
	}
	if n := len(drained(t, to)); n != 2 {
		t.Errorf("of two that are left %d were taken", n)
	}
}

func TestSealedFiles(t *testing.T) {
	file := func(f *os.File, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	text, err := MapSealed(file(SealedFile("good", []byte("good"))))
	if err != nil || string(text) != "good" {
		t.Errorf("%q, %v", text, err)
	}
	Unmap(text)
	partly := file(memoryFile("partly", []byte("partly"), unix.MFD_ALLOW_SEALING))
	if _, err := unix.FcntlInt(uintptr(partly), unix.F_ADD_SEALS, seals&^unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	for name, fd := range map[string]int{"unsealed": file(MemoryFile("soft", []byte("soft"))), "partly sealed": partly,
		"a device": file(os.Open(os.DevNull)), "large": file(SealedFile("large", make([]byte, MaxFile+1)))} {
		if _, err := MapSealed(fd); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
