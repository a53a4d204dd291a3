package systemd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// types of units that can be started and stopped; a device, a slice and a scope are no such thing.
var types = []string{"service", "target", "socket", "mount", "automount", "path", "timer", "swap"}

// maxName is systemd's bound, the terminating zero byte left out.
const maxName = 255

// letters are those that systemd allows in a name before its suffix (unit_name_is_valid).
var letters = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+$`)

// ParseUnit says what is wrong with the form of a unit's name, with what was expected. It asks nobody.
func ParseUnit(name string) error {
	stem, suffix := split(name)
	template, _, isInstance := strings.Cut(stem, "@")
	switch {
	case name == "":
		return fmt.Errorf(`no unit is named: expected one such as "haproxy.service"`)
	case len(name) > maxName:
		return fmt.Errorf("%.20q… has %d bytes: a unit's name has at most %d", name, len(name), maxName)
	case strings.Contains(name, "/"):
		return fmt.Errorf(`%q is a path: expected the name of a unit, such as "haproxy.service"`, name)
	case !slices.Contains(types, suffix):
		return fmt.Errorf("%q does not end with a type of unit: expected one of .%s", name, strings.Join(types, ", ."))
	case isInstance && strings.HasSuffix(stem, "@"):
		return fmt.Errorf("%q is a template: expected an instance of it, such as %q", name, stem+"main."+suffix)
	case !letters.MatchString(stem), isInstance && template == "":
		return fmt.Errorf("%q is no name of a unit: expected letters, digits and : _ . - \\ @ before the .%s", name, suffix)
	case isAgent(name):
		return fmt.Errorf(`%q is an agent: expected a unit that an agent starts and stops, such as "haproxy.service"`, name)
	}
	return nil
}

// split parts a name from its type, at the last dot.
func split(name string) (stem, suffix string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}
