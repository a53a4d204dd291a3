package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An instance is one of several agents on a host, each in a cluster of its own. Its name is part of its file's name, its
// directories' and its unit's; the key is all instances'.

var instanceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// CheckInstance refuses a name that could not be part of a file's, or would lead elsewhere. The error says what is expected.
func CheckInstance(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty: expected a name such as web")
	case strings.ContainsRune(name, '/') || filepath.Ext(name) == ".toml":
		return fmt.Errorf("%s is a file's: expected a name such as web, which stands for %s; or name the file with --config", quote(name), InstanceFile("web"))
	case name == "agent":
		return fmt.Errorf("agent is none: %s is the file of the agent without a name: leave the name out, or take another such as web", InstanceFile(name))
	case !instanceName.MatchString(name):
		return fmt.Errorf("%s is none: expected a letter or digit, then up to 31 of these and of '-', '_' and '.'", quote(name))
	}
	return nil
}

// InstanceFile is the configuration file of an instance.
func InstanceFile(name string) string { return filepath.Join("/etc/bully-agent", name+".toml") }

// OwnName is what the directories of an agent are called; instance "" is the agent that is none.
func OwnName(instance string) string {
	if instance == "" {
		return "bully-agent"
	}
	return "bully-agent-" + instance
}

// systemSocket is root's, and in a directory that a service manager or an image makes for another user.
func systemSocket(instance string) string {
	return filepath.Join("/run", OwnName(instance), "agent.sock")
}

// InstanceSockets finds the sockets of the system's agents, by the names of their instances; "" is that of the agent
// without one. A socket that is there need not have an agent.
func InstanceSockets() map[string]string {
	sockets := map[string]string{"": systemSocket("")}
	found, _ := filepath.Glob(systemSocket("*"))
	for _, path := range found {
		name := filepath.Base(filepath.Dir(path))[len(OwnName("")+"-"):]
		sockets[name] = path
	}
	return sockets
}

// Running names the instances of agents that run here, or did until a moment ago: the system's, by their directories, which
// all users see, and those of this user; "" is the agent without a name.
func Running() (names []string) {
	found, _ := filepath.Glob(filepath.Dir(systemSocket("")) + "*")
	own, _ := filepath.Glob(DefaultSocket(os.LookupEnv, "*"))
	for _, path := range own {
		found = append(found, filepath.Dir(path))
	}
	for _, dir := range found {
		name, isNamed := strings.CutPrefix(filepath.Base(dir), OwnName("")+"-")
		if info, err := os.Stat(dir); err == nil && info.IsDir() && (!isNamed && filepath.Base(dir) == OwnName("") || CheckInstance(name) == nil) {
			if !isNamed {
				name = ""
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// InstanceFiles finds the configuration files of the system's agents, by the names of their instances; "" is that of the
// agent without one.
func InstanceFiles() map[string]string {
	files := map[string]string{}
	found, _ := filepath.Glob(InstanceFile("*"))
	for _, path := range found {
		switch name := strings.TrimSuffix(filepath.Base(path), ".toml"); {
		case name == "agent":
			files[""] = path
		case CheckInstance(name) == nil:
			files[name] = path
		}
	}
	return files
}

// Instances are the names of the agents that have one here: the system's, by their files and sockets, and those of this user.
func Instances() (names []string) {
	for name := range InstanceFiles() {
		names = append(names, name)
	}
	for name := range InstanceSockets() {
		names = append(names, name)
	}
	own, _ := filepath.Glob(DefaultSocket(os.LookupEnv, "*"))
	for _, path := range own {
		names = append(names, strings.TrimPrefix(filepath.Base(filepath.Dir(path)), OwnName("")+"-"))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return CheckInstance(name) != nil }) // also the agent without one
	slices.Sort(names)
	return slices.Compact(names)
}
