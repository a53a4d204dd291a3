package systemd

import (
	"fmt"
	"slices"

	"github.com/godbus/dbus/v5"
)

// facts are what systemd says of a unit, in its words (org.freedesktop.systemd1(5)).
type facts struct {
	name string // the one that it has first, if it has several
	path dbus.ObjectPath

	load, loadError string // "loaded", "not-found", "masked", …
	active, sub     string // "active", "running"
	result          string // of its last run: "success", "exit-code", …; "" where its type has none
	status          int32  // of its main process, as wait(2) has it: an exit code, or a signal
	restarts        uint32 // by systemd itself, since it was started by order
	hasJob          bool   // a job for it waits or runs
	refuses         bool   // to be started by order
	isUnmet         bool   // a condition was, when it was to start last
	ends            string // KillMode; "" where its type has none

	parts    []string        // are PartOf= it
	pulls    map[string]bool // are started with it
	pulledBy []string        // start it
	before   []string        // start after it, and stop before
	isPulled bool            // the unit that it is PartOf= starts it
}

// read makes facts of a unit's properties. What is missing is zero.
func read(name string, path dbus.ObjectPath, all map[string]dbus.Variant) facts {
	f := facts{name: text(all["Id"]), path: path, load: text(all["LoadState"]), active: text(all["ActiveState"]), sub: text(all["SubState"]),
		result: text(all["Result"]), ends: text(all["KillMode"]), pulls: map[string]bool{}}
	if f.name == "" {
		f.name = name
	}
	f.status, _ = all["ExecMainStatus"].Value().(int32)
	f.restarts, _ = all["NRestarts"].Value().(uint32)
	f.hasJob = number(all["Job"]) != 0
	f.loadError = second(all["LoadError"])
	if may, is := all["CanStart"].Value().(bool); is {
		f.refuses = !may
	}
	if met, is := all["ConditionResult"].Value().(bool); is {
		at, _ := all["ConditionTimestampMonotonic"].Value().(uint64)
		f.isUnmet = !met && at != 0
	}
	f.parts, f.before = texts(all["ConsistsOf"]), texts(all["Before"])
	for _, key := range []string{"Requires", "Requisite", "BindsTo", "Wants", "Upholds"} {
		for _, unit := range texts(all[key]) {
			f.pulls[unit] = true
		}
	}
	for _, key := range []string{"RequiredBy", "BoundBy", "WantedBy", "UpheldBy", "TriggeredBy"} {
		f.pulledBy = append(f.pulledBy, texts(all[key])...)
	}
	return f
}

func text(v dbus.Variant) string {
	s, _ := v.Value().(string)
	return s
}

func texts(v dbus.Variant) []string {
	all, _ := v.Value().([]string)
	return all
}

// number is the first field of a structure.
func number(v dbus.Variant) uint32 {
	fields, _ := v.Value().([]any)
	if len(fields) == 0 {
		return 0
	}
	n, _ := fields[0].(uint32)
	return n
}

// second is the second field of a structure.
func second(v dbus.Variant) string {
	fields, _ := v.Value().([]any)
	if len(fields) < 2 {
		return ""
	}
	s, _ := fields[1].(string)
	return s
}

// isActive reports whether the host has it. It does while it loads its settings again.
func (f facts) isActive() bool {
	return slices.Contains([]string{"active", "reloading", "refreshing"}, f.active)
}

// isDown reports whether it neither runs nor is about to.
func (f facts) isDown() bool { return !f.hasJob && (f.active == "inactive" || f.active == "failed") }

// String is how it is, as systemctl shows it.
func (f facts) String() string {
	s := fmt.Sprintf("%s (%s)", f.active, f.sub)
	if f.active == "failed" {
		s = "failed: " + f.why()
	}
	if f.restarts > 0 {
		s += fmt.Sprintf(", restarted %d times by systemd", f.restarts)
	}
	return s
}

// why gives the reason for which it does not run, in systemd's words and ours.
func (f facts) why() string {
	switch f.result {
	case "exit-code":
		return fmt.Sprintf("exit-code (exit status %d)", f.status)
	case "signal", "core-dump":
		return fmt.Sprintf("%s (signal %d)", f.result, f.status)
	case "", "success":
		if f.isUnmet {
			return "a condition of it is not met"
		}
		return "it has ended"
	}
	return f.result
}

// isRefused says why it cannot be started; nil: nothing is in the way.
func (f facts) isRefused() error {
	switch {
	case f.load == "not-found":
		return fmt.Errorf("unit %s is not there: systemd finds no file of that name", f.name)
	case f.load == "masked":
		return fmt.Errorf("unit %s is masked: systemctl unmask %s lets it start", f.name, f.name)
	case f.load != "loaded" && f.loadError != "":
		return fmt.Errorf("unit %s cannot be loaded: %s", f.name, f.loadError)
	case f.load != "loaded":
		return fmt.Errorf("unit %s cannot be loaded: %s", f.name, f.load)
	case f.refuses:
		return fmt.Errorf("unit %s may not be started by order: RefuseManualStart=yes, or a type that cannot start", f.name)
	}
	return nil
}
