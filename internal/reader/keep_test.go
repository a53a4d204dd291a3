package reader

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

var quickly = rule{first: 10 * time.Millisecond, longest: 80 * time.Millisecond, sound: time.Hour, patience: bound}

// A reader in a process of its own answers as it should, and has no right to anything else.
func TestAReaderHasNoRights(t *testing.T) {
	f := feed(t, httpd.Config{}, rich())
	k := f.keep(t, defaultRule, Word)
	status, body := f.get(t, "/v1/members")
	if want := shown(t, f.agent.members) + "\n"; status != http.StatusOK || body != want {
		t.Errorf("%d %s\nwant %s", status, body, want)
	}
	until(t, "a log", func() bool { return k.log.count("reader: answering the network: addr="+f.Addr().String()) == 1 })
	pid := k.process(t, 0)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(thread, "status"))
		if err != nil {
			continue // it has ended
		}
		want := []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"}
		if os.Geteuid() == 0 {
			want = append(want, "Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65534\t65534\t65534\t65534\n")
		}
		for _, line := range want {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s: not %q", thread, line)
			}
		}
		id, _ := strconv.Atoi(filepath.Base(thread))
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			continue
		}
		if attr.Policy != unix.SCHED_NORMAL || attr.Nice != niceness {
			t.Errorf("%s: policy %d, nice %d", thread, attr.Policy, attr.Nice)
		}
	}
}

// A reader that dies is followed by another, with one line each, and the next answers.
func TestAReaderThatDies(t *testing.T) {
	t.Parallel()
	f := feed(t, httpd.Config{}, rich())
	k := f.keep(t, quickly, Word)
	pid := 0
	for range 5 {
		pid = k.process(t, pid)
		if status, _ := f.get(t, "/health"); status != http.StatusOK {
			t.Errorf("%d", status)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	k.process(t, pid)
	if status, _ := f.get(t, "/health"); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if n := k.log.count("reader ended, the network is not answered; another is started"); n != 5 {
		t.Errorf("said %d times:\n%s", n, k.log)
	}
}

// Readers that end at once follow each other ever more slowly, and whoever asks is told why.
func TestAReaderThatDiesInALoop(t *testing.T) {
	t.Parallel()
	k := feed(t, httpd.Config{}, rich()).keep(t, quickly, "dies")
	until(t, "the longest pause", func() bool { return k.log.count("in=80ms") >= 2 })
	for _, pause := range []string{"in=10ms", "in=20ms", "in=40ms"} {
		if n := k.log.count(pause); n != 1 {
			t.Errorf("%s: %d times\n%s", pause, n, k.log)
		}
	}
	until(t, "a reason", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.states[len(k.states)-1] == State{Why: "exit status 3"}
	})
}

// A keep that ends between two readers says no more why the last one ended.
func TestAKeepThatEndsBetweenReaders(t *testing.T) {
	t.Parallel()
	r := quickly
	r.first, r.longest = time.Hour, time.Hour
	k := feed(t, httpd.Config{}, rich()).keep(t, r, "dies")
	last := func() State {
		k.mu.Lock()
		defer k.mu.Unlock()
		return slices.Concat([]State{{}}, k.states)[len(k.states)]
	}
	until(t, "a reason", func() bool { return last().Why != "" })
	k.End()
	<-k.Over()
	if got := last(); got != (State{}) {
		t.Errorf("at the end: %+v", got)
	}
}

// A reader that says nothing hangs, and is ended.
func TestAReaderThatHangs(t *testing.T) {
	t.Parallel()
	r := quickly
	r.patience = 100 * time.Millisecond
	k := feed(t, httpd.Config{}, rich()).keep(t, r, "hangs")
	first := k.process(t, 0)
	k.process(t, first)
	if n := k.log.count(`err="it hangs"`); n == 0 {
		t.Error(k.log)
	}
	until(t, "the end of the first", func() bool { return unix.Kill(first, 0) == unix.ESRCH })
}

// What a reader lacks is told and logged, as harmless text and within bounds.
func TestWhatAReaderLacksIsTold(t *testing.T) {
	t.Parallel()
	k := feed(t, httpd.Config{}, rich()).keep(t, quickly, "lacks")
	until(t, "all that it says", func() bool { return k.log.count("said all") == 1 })
	k.mu.Lock()
	last := k.states[len(k.states)-1]
	k.mu.Unlock()
	if !strings.HasPrefix(last.Lacks, "no Landlock?0, xx") || len(last.Lacks) < mostLine-100 || len(last.Lacks) > mostLine {
		t.Errorf("%d bytes are told: %q", len(last.Lacks), last.Lacks)
	}
	if n := k.log.count(`this host confines the reader less than it should: lacks="no Landlock?0, xx`); n != 1 {
		t.Errorf("said %d times:\n%s", n, k.log)
	}
}

// A reader that somebody has taken over has little told of what it lacks.
func TestLacksAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		said string
		most int
	}{
		"nothing":                           {"", 0},
		"a letter":                          {"x", linesAtOnce},
		"bytes that harmless text has more": {strings.Repeat("\xff", mostLine/2), 0},
	} {
		t.Run(name, func(t *testing.T) {
			life, reader, err := sidecar.SocketPair("reader")
			if err != nil {
				t.Fatal(err)
			}
			defer life.Close()
			log, told := &lines{}, 0
			k := &Keep{log: log.logger("keep"), tell: func(State) { told++ }, rule: defaultRule}
			go func() {
				defer reader.Close()
				for range 2 * linesAtOnce {
					_, _ = reader.WriteString(string(isLack) + tt.said)
				}
			}()
			began := time.Now()
			_ = k.hear(life, State{}) // until it is closed
			most := tt.most
			if most > 0 {
				most += 1 + int(time.Since(began).Seconds()*linesPerSecond)
			}
			if told < min(most, tt.most) || told > most || log.count("less than it should") != told {
				t.Errorf("told %d times, want at most %d:\n%s", told, most, log)
			}
		})
	}
}

// A reader that is stopped ends with its keep, and what follows the events hears the last before.
func TestAReaderEndsWithItsAgent(t *testing.T) {
	f := feed(t, httpd.Config{}, &fakeAgent{})
	k := f.keep(t, defaultRule, Word)
	resp, err := http.Get("http://" + f.Addr().String() + "/v1/events?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	f.agent.Append(control.Event{Type: "link", Text: "up"})
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"text":"up"`) {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	pid := k.process(t, 0)
	f.agent.Append(control.Event{Type: "stop", Text: "agent stopped"})
	f.stop()
	f.socket.Close() // as when the process ends
	if !lines.Scan() || !strings.Contains(lines.Text(), `"text":"agent stopped"`) {
		t.Errorf("the last line is %q, %v", lines.Text(), lines.Err())
	}
	k.end(t)
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("it lives: %v", err)
	}
}

func TestAStoppedReaderEndsWithItsKeep(t *testing.T) {
	t.Parallel()
	f := feed(t, httpd.Config{}, rich())
	k := f.keep(t, defaultRule, Word)
	f.get(t, "/health")
	pid := k.process(t, 0)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.door.Close() // this process has a copy
	k.end(t)
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("it lives: %v", err)
	}
	l, err := net.Listen("tcp", f.Addr().String())
	if err != nil {
		t.Fatalf("the port is not given up: %v", err)
	}
	l.Close()
}

// What a reader writes into the log ends no line, and is bounded.
func TestLinesOfAReaderAreHarmless(t *testing.T) {
	log := &lines{}
	line{Level: 77, Text: "answering\n2026-11-28 [INFO] became leader", Args: []string{"err", "\x1b[2Jx\r\n"}}.write(log.logger("reader"))
	if text := log.String(); strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\r") || !strings.Contains(text, "[ERROR] reader: answering?2026") {
		t.Errorf("%q", text)
	}
	keeper, out, err := sidecar.SocketPair("reader")
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close()
	pace, began, came := linePace(), time.Now(), 0
	for range 10 * linesAtOnce {
		sink{out, pace}.Accept("", 4, strings.Repeat("x", 100))
	}
	most := linesAtOnce + 1 + int(time.Since(began).Seconds()*linesPerSecond)
	out.Close()
	for n, err := keeper.Read(make([]byte, mostLine)); err == nil && n > 0; n, err = keeper.Read(make([]byte, mostLine)) {
		came++
	}
	if came < linesAtOnce || came > most {
		t.Errorf("%d lines came, want %d to %d", came, linesAtOnce, most)
	}
}

// madePair is a certificate that signs itself, and its key.
func madePair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// The agent reads the certificate, which the reader cannot. One that is replaced is shown to whoever connects then, half a pair
// to nobody, and what is wrong with it is one line of the agent's.
func TestCertificateIsTheAgentsToRead(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/root", "pair")
	if err != nil {
		t.Skip("skipped: only root has a directory that nobody else could change: " + err.Error())
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := httpd.Config{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	put := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	firstCert, firstKey := madePair(t, "first")
	secondCert, secondKey := madePair(t, "second")
	put(cfg.Cert, firstCert)
	put(cfg.Key, firstKey)
	f := feed(t, cfg, rich())
	f.keep(t, defaultRule, Word)
	name := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", f.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Fatal(got)
	}
	put(cfg.Cert, secondCert)
	if err := f.Renew(); err == nil {
		t.Error("half a pair is taken")
	}
	if got := name(); got != "first" {
		t.Error(got)
	}
	put(cfg.Key, secondKey)
	until(t, "the second", func() bool { // the files are looked at every other second
		time.Sleep(200 * time.Millisecond) // and so many handshakes are made
		return name() == "second"
	})
	if err := os.Remove(cfg.Cert); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(cfg.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Renew(); err == nil || !strings.Contains(err.Error(), "cert.pem: it is a FIFO: expected a file") {
		t.Error(err)
	}
	if got := name(); got != "second" {
		t.Error(got)
	}
	if n := f.log.count("certificate not reloaded; the last stays in use"); n != 2 {
		t.Errorf("said %d times:\n%s", n, f.log)
	}
}

// A process that has other files in the place of a door has none.
func TestNoDoor(t *testing.T) {
	if d := Inherit(0); d != nil {
		t.Error("these are no port, boards and socket")
	}
}
