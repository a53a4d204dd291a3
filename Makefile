# Everything that .ci/run checks can be run here, one target each.

GO ?= go
PACKAGES = ./...
FUZZCOUNT ?= 100000
BINARY = bully-agent

.PHONY: build test check fmt vet static gosec vuln tidy race fuzz bench sim schedules cuts graphs e2e vip soak figures beside pictures drawings settings spec mutants lab dist reproducible cross clean

build: ## a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BINARY) .

test: ## what the README says
	$(GO) test ./...

check: fmt vet static tidy race fuzz ## what a change must pass besides the tests

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet $(PACKAGES)

static: # staticcheck has a module of its own: its requirements are not ours
	$(GO) tool -modfile=.ci/tools/go.mod staticcheck $(PACKAGES)

tidy:
	$(GO) mod tidy -diff
	$(GO) mod verify

# Its classes that are read, once and again, and left out, since each finding has one reason:
# G101 a header's name; G103 system calls that no library has; G104 Close, a deadline or an answer to whoever has gone;
# G115 sizes under bounds a line or a reader before, bits that mean the same with another sign, and the simulator's draws;
# G204, G304 what configuration, operator or /proc name, never the network; G301, G302, G306 modes that groups need (access);
# G404 chance of timers and of the simulator: keys, nonces and ids are of crypto/rand; G407 nonces that count.
gosec: ## minutes, and many modules: not of make check
	$(GO) run github.com/securego/gosec/v2/cmd/gosec@v2.22.10 -quiet -exclude=G101,G103,G104,G115,G204,G301,G302,G304,G306,G404,G407 -exclude-dir=internal/test ./...

# The packages with goroutines; the pure ones have none. On one processor: with two, the race detector of Go 1.26 itself
# crashes now and then when a timer of a synctest bubble fires.
race:
	CGO_ENABLED=1 $(GO) test -race -short -count=1 -cpu 1 ./agent ./hooks/... ./membership ./internal/config ./internal/control ./internal/doctor ./internal/fence ./internal/httpd ./internal/keeper ./internal/systemd \
	  ./internal/lab/... ./internal/metrics ./internal/reader ./internal/realtime ./internal/reaper ./internal/run ./internal/trust ./internal/screen ./internal/sealed ./internal/test/lantest ./internal/transport

# Counted, not timed: a deadline that falls into the middle of an input fails the run ("context deadline exceeded").
fuzz: ## FUZZCOUNT inputs for each target that takes bytes from others
	@for p in wire membership agent internal/sealed internal/identity internal/key internal/fence internal/jobs internal/config internal/control internal/keepalived internal/session internal/vip internal/reader hooks internal/trust internal/discovery; do \
	  for f in $$($(GO) test -list '^Fuzz' ./$$p | grep '^Fuzz'); do \
	    echo "fuzz $$p $$f $(FUZZCOUNT)"; \
	    $(GO) test ./$$p -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZCOUNT)x -fuzzminimizetime 1000x || exit 1; \
	  done; \
	done

vuln: ## what is known against what we link; asks the Go project's database on the network
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 $(PACKAGES)

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./wire ./internal/transport ./internal/session ./hooks/hookrun

sim: ## ten minutes of simulated faults on all cores
	$(GO) run . sim --for 10m --seed $$(date +%s)

schedules: ## those that go test plays fewer of, or in clear: 3,000 with the ports that they draw
	BULLY_SIM=long $(GO) test -count=1 -timeout 2h -v -run 'Schedules|^TestAttacks|^TestBeyond|^TestResources|^TestChecks|^TestJobsAreTried|^TestPromises' ./internal/sim
	BULLY_SIM=long $(GO) test -count=1 -timeout 10m -run '^TestScripts$$/^examples$$' .
	BULLY_SIM=long $(GO) test -count=1 -timeout 10m -v -run '^TestManyHostsAtOneInstant$$|^TestAnInsidersHearsay' ./agent
	BULLY_SIM=long $(GO) test -count=1 -timeout 10m -v -run '^TestAThousandHosts$$|^TestATrueHostMeetsAll|^TestWholeYears$$' ./membership ./internal/jobs
	BULLY_SIM=long $(GO) test -count=1 -timeout 10m -run Crash ./agent ./hooks/hookrun ./internal/durable ./internal/key

cuts: ## keepers killed between any two of their effects, each pair a hundred times: a quarter of an hour
	BULLY_SIM=long $(GO) test -count=1 -timeout 1h -v -run '^TestKeepersAreCut' ./internal/sim

graphs: ## a thousand networks in which links stay cut, for ten minutes each: a quarter of an hour
	BULLY_GRAPHS=1000 $(GO) test -count=1 -timeout 3h -v -run '^TestQ1' ./internal/sim

e2e: build ## long tests in network namespaces and containers; needs root
	BULLY_E2E=long $(GO) test -count=1 -timeout 60m -v ./internal/test/e2e ./internal/test/boot ./internal/systemd ./deploy/...

GAPS ?= $(CURDIR)/dist/gaps.txt
vip: build ## what the leader has, at length: clients' gaps, kept in GAPS, many addresses, late neighbours, booted hosts; an hour as root on a quiet machine
	@mkdir -p $(dir $(GAPS)) && rm -f $(GAPS)
	BULLY_E2E=figures BULLY_ROUNDS=$(ROUNDS) BULLY_GAPS=$(GAPS) $(GO) test -count=1 -timeout 60m -parallel 1 -v -run 'TestVirtualAddressFollowsTheLeader/^(killed|kept)' ./internal/test/e2e
	BULLY_E2E=figures $(GO) test -count=1 -timeout 60m -parallel 1 -v -run 'Address|Readers|InterfaceThatGoes|OneHolder|Neighbour|PutsNothingBack' -skip TestVirtualAddressFollowsTheLeader ./internal/test/e2e
	BULLY_E2E=long $(GO) test -count=1 -timeout 60m -v ./internal/vip ./internal/systemd ./deploy/examples ./deploy/systemd

FOR ?= 8h
soak: build ## faults at random in both modes, with an attacker among them, for as long as FOR says; needs root
	BULLY_E2E=long BULLY_SOAK=$(FOR) $(GO) test -count=1 -timeout 0 -v -run '^TestTrustUnderChaos$$' ./internal/test/e2e

ROW ?=
figures: ## what the agents are built to, measured in network namespaces: three hours as root on a quiet machine
	BULLY_FIGURES=1 $(GO) test -count=1 -timeout 240m -v -run 'TestFigures/^$(ROW)' ./internal/lab

ROUNDS ?= 20
OLD ?=
beside: ## failover beside keepalived, ucarp and what OLD names, ROUNDS times in turns: a quarter of an hour as root on a quiet machine
	BULLY_FIGURES=1 BULLY_ROUNDS=$(ROUNDS) BULLY_OLD=$(OLD) BULLY_TIMES=$(if $(OLD),,$(CURDIR)/internal/test/pictures/testdata/beside.txt) $(GO) test -count=1 -timeout 60m -v -run 'TestBeside$$' ./internal/lab
	$(if $(OLD),,$(MAKE) drawings)

pictures: build ## those of the documents, anew; make beside measures what failover.svg shows
	./$(BINARY) sim chart > docs/messages.svg
	BULLY_SCREENS=$(CURDIR)/internal/test/pictures/testdata $(GO) test -count=1 -v -run '^TestScreens$$' ./internal/cli
	BULLY_PICTURES=$(CURDIR)/docs $(GO) test -count=1 -v -run '^TestThePageForTheDocuments$$' ./internal/page
	$(MAKE) drawings

drawings: ## those that need no agents
	BULLY_PICTURES=$(CURDIR)/docs $(GO) test -count=1 -run '^TestPictures$$' ./internal/test/pictures

settings: ## whatever settings are accepted lead: 2,500 drawn from their whole range, in some minutes
	BULLY_SETTINGS=long $(GO) test -count=1 -timeout 60m -v -run '^TestWhateverIsAcceptedLeads$$' ./election

spec: ## the model of quorum mode with disks that fail, and without each rule in turn but one (BULLY_SPEC=full); needs spin and gcc
	BULLY_SPEC=all $(GO) test -count=1 -timeout 20m -v ./internal/test/spec

mutants: ## takes each rule out and shows that something notices: an hour or more
	BULLY_MUTANTS=all $(GO) test -count=1 -timeout 3h -v -run '^TestMutants' ./internal/test/mutants

lab: ## five agents on this machine, and faults
	$(GO) run . lab --nodes 5

ARCH ?=
dist: ## deb, rpm, tar.gz and their checksums, in dist/; ARCH=amd64 is that one alone
	deploy/package/build $(ARCH)

reproducible: ## makes dist/ once more, from a clone elsewhere with another mask and time zone, and holds the two against each other
	deploy/package/build
	@d=$$(mktemp -d) && trap 'rm -rf '$$d EXIT && git clone -q . $$d/clone && \
	  (umask 077; OUT=$$d/dist TZ=Asia/Tokyo LANG=C.UTF-8 $$d/clone/deploy/package/build) && diff $$d/dist/SHA256SUMS dist/SHA256SUMS && cat dist/SHA256SUMS

# 386 and arm have an int of 32 bits: vet reads tests too, and finds a number that does not fit.
CROSS ?= amd64 arm64 arm riscv64 386
cross: ## what it must build for: Linux, five architectures
	GOARCH=386 CGO_ENABLED=0 $(GO) vet $(PACKAGES)
	for a in $(CROSS); do echo $$a; GOARCH=$$a CGO_ENABLED=0 $(GO) build -o /dev/null . || exit 1; done

clean:
	rm -rf $(BINARY) deploy/docker/$(BINARY) dist
