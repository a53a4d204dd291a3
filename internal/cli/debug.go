package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
)

// debugCommand is no variable, for it runs the others.
func debugCommand() command {
	return command{
		name: "debug", usage: "collect what somebody needs who looks for a fault",
		about: `Writes one tar.gz that only its owner may read. It holds the output of status, members, events, history, jobs, hooks, keys and doctor
		here, the configuration, and the end of the log where it is known. No key is in it: text that looks like one is left out,
		and so are the commands of hooks and jobs. Their output is in it only where it is in the log. It holds names and addresses of hosts. Parts
		that could not be had, as when no agent runs, are listed as missing.`,
		examples: []string{program + " debug", program + " debug -o fault.tar.gz"},
		options: []option{
			{name: "output", short: "o", value: "FILE", usage: "where to; never over a file that is there", fallback: "bully-agent-debug-HOST-TIME.tar.gz"},
			{name: "log", value: "FILE", usage: "the agent's log; its last MiB is taken", fallback: "the service's lines in the journal"},
			configOption, jsonOption, socketOption},
		action: writeDebug,
	}
}

// collected are the commands whose answers are taken, where the program has them, and the files that these become.
var collected = []struct{ file, line string }{
	{"version.json", "version --json"}, {"status.json", "status --json"}, {"status.txt", "status"}, {"members.json", "members --json"},
	{"events.json", "events --json"}, {"history.json", "history --json"}, {"jobs.txt", "jobs list"}, {"jobs-history.txt", "jobs history"},
	{"hooks-log.txt", "hooks log"}, {"keys.json", "key status --json"}, {"doctor.json", "doctor --json"}, {"doctor.txt", "doctor"},
	{"explain.txt", "explain"}, {"explain.json", "explain --json"},
}

// item is one file of the archive.
type item struct {
	Name    string `json:"name"`
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem"` // why it is not whole, or not there; empty: nothing
	content []byte
}

func writeDebug(c *call) error {
	begun := time.Now()
	items := c.collect()
	hide := newScrubber(c.secretsHere())
	for i := range items {
		items[i].content = hide.scrub(items[i].content)
		items[i].Bytes = len(items[i].content)
		items[i].Problem = string(hide.scrub([]byte(items[i].Problem)))
	}
	items = append(items, contents(items, begun))
	path := c.String("output")
	if path == "" {
		host, _ := os.Hostname() // an empty one does no harm
		path = "bully-agent-debug-" + plainName(host) + "-" + begun.UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	if err := writeArchive(path, items, begun); err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(struct {
			File  string `json:"file"`
			Items []item `json:"items"`
		}{path, items})
	}
	return c.print(string(listing(items)) + "\nwritten to " + config.Printable(path) + ", for its owner alone; no key is in it, names and addresses of hosts are\n")
}

// collect asks what there is to ask. One thing that fails keeps nothing else out.
func (c *call) collect() (items []item) {
	for _, want := range collected {
		words := strings.Fields(want.line)
		if _, known := find(commands(), words[0]); known {
			items = append(items, c.answerOf(want.file, words))
		}
	}
	return append(items, c.configItem(), c.logItem())
}

// answerOf runs a command of this program as a user would, and takes what it prints.
func (c *call) answerOf(file string, words []string) item {
	var out, errs bytes.Buffer
	args := append([]string{program}, words...)
	if words[0] != "version" {
		args = append(args, "--socket", c.socketPath())
	}
	err := newApp(&console{in: strings.NewReader(""), out: &out, err: &errs}).Run(args)
	it := item{Name: file, content: out.Bytes()}
	var said outcome
	if err != nil && !errors.As(err, &said) {
		it.Problem = firstLine(err.Error())
	}
	return it
}

// configItem is what config show prints, except for commands, which may have a password in them.
func (c *call) configItem() item {
	it := item{Name: "agent.toml"}
	cfg, err := c.configHere()
	if err != nil {
		it.Problem = firstLine(err.Error())
		return it
	}
	it.content = []byte(cfg.WithoutCommands().TOML())
	return it
}

// configHere is what run would read here without flags.
func (c *call) configHere() (*config.Config, error) {
	return config.Load(c.sourceHere())
}

const (
	mostOfLog   = 1 << 20
	journalUnit = program + ".service"
	journalTime = 10 * time.Second
)

// logItem is the end of the log: of a file that the user names, else of the service's journal.
func (c *call) logItem() item {
	it := item{Name: "log.txt"}
	if path := c.String("log"); path != "" {
		content, err := tailOf(path)
		if it.content = content; err != nil {
			it.Problem = firstLine(err.Error())
		}
		return it
	}
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		it.Problem = "there is no journalctl here: name the log's file with --log"
		return it
	}
	ctx, cancel := context.WithTimeout(c.Context.Context, journalTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, journalctl, "--quiet", "--no-pager", "--output=short-iso-precise", "--lines=5000", "--unit="+journalUnit)
	it.content, err = cmd.Output()
	if it.content = it.content[max(len(it.content)-mostOfLog, 0):]; err != nil || len(it.content) == 0 {
		it.Problem = "the journal has nothing of " + journalUnit + ": name the log's file with --log"
	}
	return it
}

func tailOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.NewSectionReader(f, max(info.Size()-mostOfLog, 0), mostOfLog))
}

// contents says what is in the archive, for whoever opens it.
func contents(items []item, at time.Time) item {
	text := fmt.Sprintf("%s, %s\n\n%s", thisBuild(), at.UTC().Format(time.RFC3339), listing(items))
	return item{Name: "CONTENTS.txt", content: []byte(text), Bytes: len(text)}
}

func listing(items []item) []byte {
	var b bytes.Buffer
	for _, it := range items {
		if it.Problem != "" {
			fmt.Fprintf(&b, "%9d  %-16s  missing: %s\n", it.Bytes, it.Name, config.Printable(it.Problem))
		} else {
			fmt.Fprintf(&b, "%9d  %s\n", it.Bytes, it.Name)
		}
	}
	return b.Bytes()
}

// writeArchive makes the file anew, for its owner, and removes it if it does not come to be whole.
func writeArchive(path string, items []item, at time.Time) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &failure{code: exitNo, err: fmt.Errorf("write archive: %w", err), hint: "name another file with -o"}
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
			err = fmt.Errorf("write archive: %s", firstLine(err.Error()))
		}
	}()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	dir := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	for _, it := range items {
		if len(it.content) == 0 {
			continue
		}
		head := &tar.Header{Name: dir + "/" + it.Name, Mode: 0o600, Size: int64(len(it.content)), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(it.content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if rest != "" {
		line += " (and " + strconv.Itoa(strings.Count(rest, "\n")+1) + " more)"
	}
	return line
}

// plainName is a host's name as a part of a file's.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' && r != '-' && r != '.' || r > 'z' || r > '9' && r < 'A' || r > 'Z' && r < 'a' {
			return '-'
		}
		return r
	}, name)
}
