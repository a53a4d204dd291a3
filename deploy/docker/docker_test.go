// Package docker tests the container files of this directory, and what ../README.md says of them, on a real engine.
package docker

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The priorities of the compose file make this the order in which they lead.
const first, second, third = "agent3", "agent2", "agent1"

// Agents in containers, through everything that happens to a container. Each step looks at what the hooks wrote, which is
// what counts for a user.
func TestContainers(t *testing.T) {
	s := newStack(t)
	t.Run("three agents", func(t *testing.T) { threeAgents(t, s) })
	t.Run("one agent", func(t *testing.T) { oneAgent(t, s) })
}

func threeAgents(t *testing.T, s *stack) {
	step := func(name string, do func(t *testing.T)) {
		if !t.Run(name, do) {
			t.FailNow() // the next one begins where this one should have ended
		}
	}
	step("find each other by name, and the highest priority leads", func(t *testing.T) { elect(t, s) })
	step("run with no rights, under an init", func(t *testing.T) { confined(t, s) })
	step("a killed leader is followed by the next", func(t *testing.T) { kill(t, s) })
	step("a restarted leader cleans up, then takes over cleanly", func(t *testing.T) { restart(t, s) })
	step("a leader that is cut off gives up, and leads again later", func(t *testing.T) { cut(t, s) })
	step("a stopped leader hands over and exits with 0", func(t *testing.T) { stop(t, s) })
	step("the health check passes, leader or not", func(t *testing.T) { healthy(t, s) })
	step("on each host become and lose alternated, and epochs rose", func(t *testing.T) {
		for _, complaint := range disorder(s.hookLog(t)) {
			t.Error(complaint)
		}
	})
	step("nothing is left", func(t *testing.T) {
		s.documented(t, "docker compose -f deploy/docker/compose.yaml down --volumes")
	})
}

func elect(t *testing.T, s *stack) {
	s.documented(t, "docker compose -f deploy/docker/compose.yaml up --build --detach")
	s.find(t, first, second, third)
	s.waitLeading(t, first)
	if lines := s.hookLog(t); mostLeaders(lines) > 1 {
		t.Errorf("several led at once:\n%s", text(lines))
	}
	s.agreeOn(t, first, second, third)
	s.documented(t, "docker compose -f deploy/docker/compose.yaml exec agent1 bully-agent status", "follower", "3 alive of 3 known")
	s.documented(t, "docker compose -f deploy/docker/compose.yaml exec agent1 bully-agent members", first, second, third)
	s.documented(t, "docker compose -f deploy/docker/compose.yaml exec agent1 cat /var/log/bully-agent/hooks.log", "agent3 become-leader")
}

func confined(t *testing.T, s *stack) {
	if name := s.in(t, third, "cat", "/proc/1/comm"); name == "bully-agent" {
		t.Error("process 1 is the agent, so nobody reaps what hooks leave behind")
	}
	process := s.in(t, third, "sh", "-c", "for p in $(pidof bully-agent); do cat /proc/$p/status; done")
	for _, want := range []string{"Uid:\t7950\t7950\t7950\t7950", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(process, want) {
			t.Errorf("no %q in the agent's process status:\n%s", want, process)
		}
	}
}

func kill(t *testing.T, s *stack) {
	mark := len(s.hookLog(t))
	s.documented(t, "docker compose -f deploy/docker/compose.yaml kill agent3")
	became := s.waitFor(t, mark, second, "become-leader")
	died, err := time.Parse(time.RFC3339Nano, s.engine(t, "inspect", "--format", "{{.State.FinishedAt}}", s.container[first]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("from death, as the engine saw it, to the next leader: %v", became.at.Sub(died).Round(time.Millisecond))
	s.wrote(t, mark, "agent2 become-leader process-gone")
	s.agreeOn(t, second, third)
}

func restart(t *testing.T, s *stack) {
	mark := len(s.hookLog(t))
	s.documented(t, "docker compose -f deploy/docker/compose.yaml start agent3")
	s.waitFor(t, mark, first, "become-leader")
	s.wrote(t, mark, "agent3 lose-leadership unclean-restart", "agent2 lose-leadership preempted", "agent3 become-leader handed-over")
	s.agreeOn(t, first, second, third)
}

// cut pulls the cable. Both sides may lead for as long as it lasts: that is the promise of available mode.
func cut(t *testing.T, s *stack) {
	mark, at, address := len(s.hookLog(t)), time.Now(), s.address(t, first)
	s.engine(t, "network", "disconnect", s.network(), s.container[first])
	lost, became := s.waitFor(t, mark, first, "lose-leadership"), s.waitFor(t, mark, second, "become-leader")
	t.Logf("from cut to hooks: lose %v, become %v", lost.at.Sub(at).Round(time.Millisecond), became.at.Sub(at).Round(time.Millisecond))
	// The old leader gives up a tenth of a second before the others may have the next; a loaded machine can take longer
	// to let it run.
	if overlap := lost.at.Sub(became.at); overlap > time.Second {
		t.Errorf("two led for %v:\n%s", overlap, text(s.hookLog(t)[mark:]))
	}

	s.engine(t, "network", "connect", "--alias", first, s.network(), s.container[first])
	if now := s.address(t, first); now != address {
		t.Logf("the engine gave %s instead of %s: restarting the agent, as the README says", now, address)
		s.engine(t, "restart", s.container[first])
	}
	s.waitLeading(t, first)
	s.agreeOn(t, first, second, third)
}

func stop(t *testing.T, s *stack) {
	mark, at := len(s.hookLog(t)), time.Now()
	s.documented(t, "docker compose -f deploy/docker/compose.yaml stop agent3")
	if took := time.Since(at); took > 20*time.Second {
		t.Errorf("the stop took %v: is the grace period used up?", took)
	}
	s.waitFor(t, mark, second, "become-leader")
	s.wrote(t, mark, "agent3 lose-leadership stopped", "agent2 become-leader handed-over")
	if code := s.engine(t, "inspect", "--format", "{{.State.ExitCode}}", s.container[first]); code != "0" {
		t.Errorf("exit code %s, expected 0", code)
	}
	s.agreeOn(t, second, third)
}

func healthy(t *testing.T, s *stack) {
	for _, service := range []string{second, third} {
		eventually(t, service+" to be healthy", func() bool {
			return s.engine(t, "inspect", "--format", "{{.State.Health.Status}}", s.container[service]) == "healthy"
		})
	}
}

// oneAgent is the README's example except for the network: on the host's the port may be taken.
func oneAgent(t *testing.T, s *stack) {
	s.documented(t, "docker build --tag bully-agent:local deploy/docker")
	s.documented(t, "docker run --rm bully-agent:local run --help", "--priority", "BULLY_")
	s.documented(t, "docker run --rm --volume bully-agent-key:/etc/bully-agent/secret bully-agent:local key generate --if-missing", "key")
	s.documented(t, "docker run --detach --name bully-agent --init --network host --restart unless-stopped --stop-timeout 45"+
		" --volume bully-agent-state:/var/lib/bully-agent --volume bully-agent-key:/etc/bully-agent/secret --env BULLY_JOIN=beta.lan,gamma.lan --env BULLY_PRIORITY=200 bully-agent:local")
	s.documented(t, "docker exec bully-agent bully-agent wait --for me --timeout 30s")
	s.documented(t, "docker exec bully-agent bully-agent status", "priority 200", "leader")
	s.documented(t, "docker stop bully-agent")
	if code := s.engine(t, "inspect", "--format", "{{.State.ExitCode}}", s.name); code != "0" {
		t.Errorf("exit code %s, expected 0", code)
	}
}

// Whatever composes here must be able to read the file, which needs no engine.
func TestComposeFileIsUnderstood(t *testing.T) {
	compose := composeCommand()
	if compose == nil {
		t.Skip("neither docker compose nor docker-compose is installed")
	}
	for given, want := range map[string]string{"": "busybox:1.37", "debian:stable-slim": "debian:stable-slim"} {
		cmd := exec.Command(compose[0], append(slices.Clone(compose[1:]), "-f", "compose.yaml", "config")...)
		cmd.Env = append(os.Environ(), "BULLY_BASE="+given)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || strings.Contains(stderr.String(), "compose.yaml") { // a warning names the file
			t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
		}
		if !strings.Contains(stdout.String(), "BASE: "+want+"\n") {
			t.Errorf("with BULLY_BASE=%q the base is not %s:\n%s", given, want, stdout.Bytes())
		}
	}
}

// A syntax line makes BuildKit fetch a frontend image, even on a host that reaches no registry.
func TestDockerfileFetchesNothing(t *testing.T) {
	file, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(strings.ReplaceAll(line, " ", ""), "#syntax=") {
			t.Errorf("the Dockerfile has a syntax line: %s", line)
		}
	}
}

func TestHookScriptsCanBeMounted(t *testing.T) {
	for _, name := range []string{"become", "lose"} {
		path := filepath.Join("hooks", name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o111 != 0o111 {
			t.Errorf("%s has mode %v: the agent's user must be able to run it", path, info.Mode())
		}
		if out, err := exec.Command("sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
}
