package keepalived

import (
	"fmt"
	"slices"
	"strings"
)

// What is left out: why, and what to do instead.

func (s *Statement) leave(why string) { s.fate = fate{leftOut, why} }

func (s *Statement) change(what string) { s.fate = fate{changed, what} }

// leaveBlock leaves a block out as a whole.
func leaveBlock(s *Statement, why string) {
	if s.fate.kind == carried {
		return
	}
	s.leave(why)
	for _, t := range s.Block {
		t.fate.kind = unjudged // the block's line says it
		leaveBlock(t, why)
	}
}

const (
	noVRRP  = "no VRRP is spoken here"
	noLVS   = "there is no load balancer here: leave this to keepalived, started with --check, or see deploy/examples/haproxy"
	noMail  = "no mail is sent: let on_leader_change send it, or an alert of docs/monitoring.md"
	noKey   = "all hosts share a key here: bully-agent key generate on the first, which says how to copy it"
	hisUser = "hooks and checks run as the service's user; root-hooks.conf makes it run them as root, and runuser -u in the command as another"
	process = "it is about keepalived's own processes: see docs/configuration.md"
	noGARP  = "the neighbours are told at once, five times in 200 ms, for 5 s more, and every 30 s"
)

// reasons are the keywords that are left out, by their beginnings; the longest counts.
var reasons = map[string]string{
	"state":                      "there is no initial state: the highest priority leads",
	"advert_int":                 "a leader is heard of every 50 ms, and missed after 400: profile = \"fast\" or \"wan\" has other times",
	"authentication":             noKey,
	"auth_type":                  noKey,
	"auth_pass":                  noKey,
	"garp_":                      noGARP,
	"vrrp_garp_":                 noGARP,
	"vrrp_gna_interval":          noGARP,
	"gna_interval":               noGARP,
	"smtp_":                      noMail,
	"notification_email":         noMail,
	"email_faults":               noMail,
	"no_email_faults":            noMail,
	"router_id":                  "a node has its host's name: name under [node] gives it another",
	"script_user":                hisUser,
	"user":                       hisUser,
	"notify_master_rx_lower_pri": "a leader never hears of a lower priority: there is nothing to tell",
	"notify_deleted":             "an instance that is taken out is an agent that is stopped: BULLY_CAUSE is stopped",
	"notify_priority_changes":    "no changes of priority are told: see bully-agent events",
	"notify_fifo":                "there is no fifo: bully-agent events --follow --json prints a line for each event",
	"vrrp_notify_fifo":           "there is no fifo: bully-agent events --follow --json prints a line for each event",
	"lvs_notify_fifo":            noLVS,
	"virtual_routes":             "routes are not set here: write ip route replace and ip route del into the hooks",
	"virtual_rules":              "rules are not set here: write ip rule add and ip rule del into the hooks",
	"virtual_server":             noLVS,
	"real_server":                noLVS,
	"lvs_":                       noLVS,
	"ipvs_":                      noLVS,
	"checker_":                   noLVS,
	"default_interface":          "each address needs its interface: write dev and its name",
	"track_file":                 "files are not watched here: write a [[check]] that reads it",
	"vrrp_track_file":            "files are not watched here: write a [[check]] that reads it",
	"track_process":              "processes are not watched here: write a [[check]] with pgrep -x NAME",
	"vrrp_track_process":         "processes are not watched here: write a [[check]] with pgrep -x NAME",
	"track_bfd":                  "there is no BFD here: the leader's silence is noticed within 400 ms",
	"bfd_instance":               "there is no BFD here: the leader's silence is noticed within 400 ms",
	"track_group":                "static addresses are not set here",
	"static_":                    "it is on every host, not on the leader: let the network's own configuration have it",
	"use_vmac":                   "addresses move without a hardware address of their own: clients are told by gratuitous ARP",
	"vmac_":                      "addresses move without a hardware address of their own: clients are told by gratuitous ARP",
	"use_ipvlan":                 "addresses stand on the interface itself",
	"dont_track_primary":         "a host whose own link is down does not lead, always",
	"linkbeat_":                  "the kernel says when the link is down",
	"interface_up_down_delays":   "fall and rise of a [[check]] are such delays",
	"mcast_":                     "nothing is sent by multicast: join names the others",
	"vrrp_mcast_":                "nothing is sent by multicast: join names the others",
	"unicast_":                   noVRRP,
	"version":                    noVRRP,
	"vrrp_":                      noVRRP + ": the setting has no counterpart",
	"native_ipv6":                noVRRP,
	"accept":                     "an address that is on the host takes what comes for it, always",
	"no_accept":                  "an address that is on the host takes what comes for it, always",
	"strict_mode":                noVRRP,
	"skip_check_adv_addr":        noVRRP,
	"lower_prio_no_advert":       noVRRP,
	"higher_prio_send_advert":    noVRRP,
	"old_unicast_checksum":       noVRRP,
	"down_timer_adverts":         "a leader is missed when its lease has ended: lease under [election]",
	"promote_secondaries":        "give addresses the prefix /32, with which none is another's secondary",
	"vrf":                        "addresses stand on the interface that is named",
	"debug":                      "level under [log] is for that",
	"kernel_rx_buf_size":         noVRRP,
	"global_tracking":            "a group is one agent here, whose checks are all its instances'",
	"sync_group_tracking_weight": "a group is one agent here, whose weights are all its instances'",
	"weight":                     "expected a number from -253 to 253",
	"net_namespace":              "start the agent in the namespace: ip netns exec",
	"instance":                   process,
	"namespace_with_ipsets":      process,
	"use_pid_dir":                process,
	"process_name":               process,
	"startup_script":             "let the service run it: ExecStartPre= of systemd",
	"shutdown_script":            "let the service run it: ExecStopPost= of systemd",
	"include_check":              process,
	"global_defs":                process,
	"child_wait_time":            process,
	"SSL":                        noLVS,
	"max_auto_priority":          "scheduling under [node] is for that",
	"dynamic_interfaces":         "an interface may come later, always",
}

// builtIn are keywords that need no setting here.
var builtIn = []string{"enable_script_security"} // as root no hook is run that others could change

// topLevel are keywords that a file of keepalived's may begin a line with.
var topLevel = []string{"global_defs", "vrrp_instance", "vrrp_script", "vrrp_sync_group", "vrrp_track_process", "vrrp_track_file", "track_file",
	"virtual_server", "virtual_server_group", "static_ipaddress", "static_routes", "static_rules", "garp_group", "bfd_instance",
	"linkbeat_interfaces", "interface_up_down_delays", "net_namespace", "net_namespace_ipvs", "track_group", "SSL"}

func isTopLevel(name string) bool { return slices.Contains(topLevel, name) }

// reasonFor is why a keyword is left out.
func reasonFor(name string) string {
	best := ""
	for prefix := range reasons {
		isWhole := name == prefix
		isBeginning := strings.HasSuffix(prefix, "_") && strings.HasPrefix(name, prefix)
		if (isWhole || isBeginning || strings.HasPrefix(name, prefix+"_")) && len(prefix) > len(best) {
			best = prefix
		}
	}
	if best == "" {
		return "it is not known here: look into keepalived.conf(5) what it is for"
	}
	return reasons[best]
}

// rest judges whatever nobody has taken.
func rest(block []*Statement) {
	for _, s := range block {
		switch {
		case s.fate.kind != unjudged:
		case slices.Contains(builtIn, s.Name()):
			s.fate.kind = carried
		case s.Name() == "global_defs" && s.hasBlock:
			s.fate.kind = carried // what is in it is judged
		case s.Name() == "vrrp_instance" || s.Name() == "vrrp_sync_group" || s.Name() == "vrrp_script":
			leaveBlock(s, "it has no name")
		default:
			leaveBlock(s, reasonFor(s.Name()))
			continue
		}
		if s.fate.kind == carried || s.fate.kind == changed {
			rest(s.Block)
		}
	}
}

// Note is a line, or the lines of a block, of which an agent has nothing, or not quite the same.
type Note struct {
	File        string
	First, Last int
	Text        string // its words
	Left        bool   // an agent has nothing of it
	Why         string // and what to do instead; or what is otherwise
}

// String is the note's line.
func (n Note) String() string {
	lines := fmt.Sprint(n.First)
	if n.Last > n.First {
		lines = fmt.Sprintf("%d-%d", n.First, n.Last)
	}
	how := "left out"
	if !n.Left {
		how = "changed"
	}
	return fmt.Sprintf("%s:%s: %s: %s: %s", n.File, lines, cut(n.Text), how, n.Why)
}

// Notes lists what is left out or changed, by line. A block that is left out as a whole is one note.
func Notes(block []*Statement) (notes []Note) {
	for _, s := range block {
		if s.fate.kind == leftOut || s.fate.kind == changed {
			notes = append(notes, Note{File: s.File, First: s.Line, Last: s.Last, Text: strings.Join(s.Words, " "),
				Left: s.fate.kind == leftOut, Why: s.fate.note})
		}
		if s.fate.kind != leftOut {
			notes = append(notes, Notes(s.Block)...)
		}
	}
	return notes
}
