package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/test/loopback"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// scriptsTogether is how many scripts run at a time: they wait for agents.
const scriptsTogether = 5

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{holder.Word, keeper.Word, vip.Word}, os.Args[1]) {
		main() // started as /proc/self/exe by a command of a script
	}
	if strings.HasSuffix(os.Args[0], ".test") { // not a script's command
		waiting.Together(scriptsTogether)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // children would inherit that nohup ignores it
	}
	testscript.Main(m, map[string]func(){"bully-agent": main})
}

// TestScripts runs the real program on loopback. Each script of testdata/script
// says in its first lines what it proves.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               setup,
		RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"freeport":   freePort,
			"holdport":   holdPort,
			"eventually": eventually,
			"json":       jsonField,
			"hidden":     hidden,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "long":
				return os.Getenv("BULLY_SIM") == "long", nil
			case "realtime":
				return mayBeRealtime(), nil
			case "machines":
				return exec.Command("unshare", "--mount", "--map-root-user", "mount", "--bind", "/dev/null", "/etc/machine-id").Run() == nil, nil
			case "netns":
				return exec.Command("unshare", "--net", "--map-root-user", "ip", "link").Run() == nil, nil
			case "timens":
				return exec.Command("unshare", "--map-root-user", "--time", "--boottime", "1", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("there is no condition %q: expected root, long, realtime, machines, netns or timens", name)
		},
	})
}

// setup gives each script an agent's environment of its own: nothing of this
// host's, and timers that make a lone agent lead at once.
func setup(env *testscript.Env) error {
	empty := filepath.Join(env.WorkDir, "empty.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return err
	}
	env.Setenv("BULLY_CONFIG", empty)
	secret := filepath.Join(env.WorkDir, "key")
	if err := os.WriteFile(secret, key.Ring{key.Generate(time.Now(), nil)}.Format(), 0o600); err != nil {
		return err
	}
	env.Setenv("BULLY_KEY", secret)
	env.Setenv("BULLY_SOCKET", filepath.Join(env.WorkDir, "agent.sock"))
	env.Setenv("BULLY_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BULLY_NAME", "alpha")
	env.Setenv("BULLY_SETTLE", "100ms")
	said := filepath.Join(env.WorkDir, "hooks")
	for _, hook := range []string{"BULLY_ON_BECOME_LEADER", "BULLY_ON_LOSE_LEADERSHIP"} {
		env.Setenv(hook, fmt.Sprintf(`echo "$BULLY_EVENT $BULLY_EPOCH $BULLY_CAUSE" >>%s`, said))
	}
	env.Setenv("NOTIFY_SOCKET", "")
	return nil
}

// mayBeRealtime tries it with a thread that ends then.
func mayBeRealtime() bool {
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		tried <- unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Priority: realtime.Priority}, 0)
	}()
	return <-tried == nil
}

// freePort VAR: VAR becomes an address of loopback that nobody else uses.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport VAR")
	}
	ts.Setenv(args[0], loopback.Addr().String())
}

// holdPort ADDR: this process listens on it until the script ends.
func holdPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: holdport ADDR")
	}
	l, err := net.Listen("tcp", args[0])
	ts.Check(err)
	ts.Setenv("HOLDER", strconv.Itoa(os.Getpid()))
	ts.Defer(func() { l.Close() })
}

// patience is how long something may take on a machine that does other things
// too.
const patience = 15 * time.Second

// eventually FILE TEXT: the file comes to hold the text.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: eventually FILE TEXT")
	}
	var content []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		content, _ = os.ReadFile(ts.MkAbs(args[0]))
		if bytes.Contains(content, []byte(args[1])) {
			return
		}
	}
	ts.Fatalf("%s never came to hold %q; it holds:\n%s", args[0], args[1], content)
}

// hidden STATE...: no file of the script but these states has the private key of one of them, in whatever form.
func hidden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: hidden STATE...")
	}
	var forms []string
	for _, state := range args {
		content := ts.ReadFile(state)
		if len(content) != 2*durable.SlotSize {
			ts.Fatalf("%s has %d bytes", state, len(content))
		}
		for at := 0; at < len(content); at += durable.SlotSize {
			secret := []byte(content[at+16:][:identity.Size]) // see agent/state.go
			forms = append(forms, string(secret), string(secret[:8]), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)),
				base64.RawStdEncoding.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret), strings.Trim(fmt.Sprint(secret), "[]"))
		}
	}
	files := 0
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, entry fs.DirEntry, err error) error {
		isState := slices.ContainsFunc(args, func(state string) bool { return ts.MkAbs(state) == path })
		if err != nil || !entry.Type().IsRegular() || isState {
			return err
		}
		content, err := os.ReadFile(path)
		for _, form := range forms {
			if bytes.Contains(content, []byte(form)) {
				ts.Fatalf("%s has the private key, as %q", path, form)
			}
		}
		files++
		return err
	}))
	if files < 5 {
		ts.Fatalf("looked at %d files", files)
	}
}

// jsonField PATH WANT: the value at PATH (keys and indices with dots) in the
// JSON on standard output is WANT; "*" is anything but null and empty.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json PATH WANT")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &value))
	for key := range strings.SplitSeq(args[0], ".") {
		switch v := value.(type) {
		case map[string]any:
			found := false
			if value, found = v[key]; !found {
				ts.Fatalf("%s: there is no %q in %v", args[0], key, v)
			}
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(v) {
				ts.Fatalf("%s: there are %d elements", args[0], len(v))
			}
			value = v[i]
		default:
			ts.Fatalf("%s: %v has no %q", args[0], value, key)
		}
	}
	got := fmt.Sprint(value)
	if args[1] == "*" && value != nil && got != "" && got != "0" || got == args[1] {
		return
	}
	ts.Fatalf("%s is %s, expected %s", args[0], got, args[1])
}
