package e2e

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/making"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// parallelLANs is how many LANs run at once. The tests wait more than they
// compute; more than a few and the agents' own timers would be put to the test
// of a crowded machine, which is another test.
const parallelLANs = 4

var (
	binary  string // the agent under test
	workDir string // of this test process; short, since sockets are below it
	missing string // what a namespace test lacks here; "" if nothing
)

func TestMain(m *testing.M) {
	waiting.Together(parallelLANs)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if missing = lacks(); missing != "" {
		return m.Run()
	}
	sweep()
	workDir = filepath.Join(os.TempDir(), prefix(os.Getpid()))
	if err := os.Mkdir(workDir, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, "make the directory of the tests:", err)
		return 1
	}
	defer os.RemoveAll(workDir)
	if err := provideBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if left := netlab.Namespaces(prefix(os.Getpid()) + "-"); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "the tests left namespaces behind:", left)
		code = max(code, 1)
	}
	return code
}

// provideBinary builds the agent, unless BULLY_E2E_BINARY names one: that of a
// release, or one with the race detector in it.
func provideBinary() error {
	if binary = os.Getenv("BULLY_E2E_BINARY"); binary != "" {
		return nil
	}
	binary = filepath.Join(workDir, "bully-agent")
	return making.Program(binary)
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// lacks finds out what this machine does not let us do, by doing it.
func lacks() string {
	if testing.Short() {
		return "-short was given"
	}
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "the command ip is not installed (package iproute2)"
	}
	try, err := netlab.New(prefix(os.Getpid())+"-try", netlab.Fine)
	if err == nil {
		defer try.Close()
		_, err = try.AddHost("h1", netip.MustParsePrefix("10.78.0.1/24"))
	}
	if err != nil {
		return "no network of namespaces can be made: " + err.Error()
	}
	return ""
}

// quick are the tests on hosts that run by default: one for each thing that must
// never break, within a minute in all. The others run when BULLY_E2E is set, or
// when they are asked for by -run.
var quick = []string{
	"TestPriorityDecides", "TestCommandsOnHosts", "TestCutLeaderLetsGoFirst", "TestLeaderWithoutLink", "TestBestReachesOnlyTheLeader", "TestIPv6Only",
	"TestKilledLeaderIsReplacedAtOnce", "TestQuorumOutlivesALeader", "TestQuorumLeaderInMinority", "TestPausedLeader",
	"TestKeeperRunsTheLoseHook", "TestKeeperLeavesNothingBehind", "TestStopDuringBecomeHook", "TestHandOverWaitsForJobs",
	"TestExplainOnHosts", "TestExecRunsOnOneHost", "TestHoldFollowsTheLeader", "TestVirtualAddressFollowsTheLeader",
	"TestKilledAtEachCallOnTheStateFile", "TestLeadersDiskBreaks", "TestDoctorNamesTheFault",
	"TestSRVRecordsThatChange", "TestMDNS",
	"TestAReaderHasNoPartInTheElection",
	"TestCase86And88NetworkProcessHasNoRights", "TestCase87NetworkProcessWritesNothingOfTheKeepers",
}

// needsLAN skips a test that cannot run here, or not by default.
func needsLAN(t *testing.T) {
	t.Helper()
	if missing != "" {
		t.Skip("skipped: " + missing)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	if os.Getenv("BULLY_E2E") == "" && !isSet("test.run") && !slices.Contains(quick, name) {
		t.Skip("skipped: not among the quick ones; BULLY_E2E=all, or -run, runs it")
	}
}

// needsNft skips a test that filters packets where that cannot be done.
func needsNft(t *testing.T) {
	t.Helper()
	needsLAN(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("skipped: the command nft is not installed (package nftables)")
	}
	try, err := netlab.New(fmt.Sprintf("%s-nft%d", prefix(os.Getpid()), lans.Add(1)), netlab.Fine)
	must(t, err)
	defer try.Close()
	if out, err := exec.Command("ip", "netns", "exec", string(try.Switch()), "nft", "add", "table", "inet", "try").CombinedOutput(); err != nil {
		t.Skip("skipped: nft does not work here: " + oneLine(out))
	}
}

// isLong is a test that takes minutes and is run by `make e2e` only.
func isLong(t *testing.T) {
	t.Helper()
	needsLAN(t)
	if os.Getenv("BULLY_E2E") != "long" {
		t.Skip("skipped: it takes minutes; BULLY_E2E=long runs it")
	}
}

func oneLine(out []byte) string { return strings.Join(strings.Fields(string(out)), " ") }

const kind = "be" // begins the names of everything that the tests make

// prefix is that of what the test process pid makes.
func prefix(pid int) string { return fmt.Sprintf("%s%d", kind, pid) }

// sweep removes what test processes left behind that were killed: their
// namespaces, the agents in them, and their directories.
func sweep() {
	for _, orphan := range netlab.Orphans(kind) {
		orphan.KillAll()
		orphan.Remove()
	}
	for _, place := range []string{os.TempDir(), netnsConfig} {
		dirs, _ := filepath.Glob(filepath.Join(place, kind+"*"))
		for _, dir := range dirs {
			if netlab.IsOrphan(kind, filepath.Base(dir)) {
				_ = os.RemoveAll(dir)
			}
		}
	}
}
