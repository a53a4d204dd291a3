package agent

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// receiptsName is the file of the receipts that other hosts have given this one, and of its own newest (S19). A head, and then a
// line for each: id, incarnation, receipt. Those come first whose hosts were absent for longest.
const (
	receiptsName = "receipts"
	receiptsHead = "bully-agent receipts 1\n"
)

// receiptFile writes them. Others' are a safeguard of theirs: the loop never waits for the disk, and what could not be written is
// tried again.
type receiptFile struct {
	path    string
	log     hclog.Logger
	port    func(since uint64) ([]session.Receipt, uint64)
	look    chan struct{} // capacity 1: there may be something to write
	written uint64        // version that is on disk; zero: none
	failed  bool          // the last attempt, and it was said
}

func newReceiptFile(dir string, port sealing, log hclog.Logger) *receiptFile {
	return &receiptFile{path: filepath.Join(dir, receiptsName), log: log, port: port.Receipts, look: make(chan struct{}, 1)}
}

// mayWrite has it look whether there is something to write. The loop calls it once a second.
func (f *receiptFile) mayWrite() {
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// run writes until ctx ends, and once more then.
func (f *receiptFile) run(ctx context.Context) {
	defer f.write()
	for {
		select {
		case <-f.look:
			f.write()
		case <-ctx.Done():
			return
		}
	}
}

func (f *receiptFile) write() {
	all, version := f.port(f.written)
	if version == f.written {
		return
	}
	err := durable.Replace(f.path, appendReceipts(nil, all))
	switch {
	case err == nil:
		f.written, f.failed = version, false
	case !f.failed:
		f.failed = true
		f.log.Warn("receipts of other hosts not saved; it is tried again", "err", err)
	}
}

func appendReceipts(b []byte, all []session.Receipt) []byte {
	b = append(b, receiptsHead...)
	for _, r := range all {
		b = fmt.Appendf(b, "%v %d %x\n", r.ID, r.Incarnation, r.Text)
	}
	return b
}

// parseReceipts is the inverse of appendReceipts.
func parseReceipts(b []byte) (all []session.Receipt, err error) {
	b, isOurs := bytes.CutPrefix(b, []byte(receiptsHead))
	if !isOurs {
		return nil, fmt.Errorf("its first line is not %q", receiptsHead[:len(receiptsHead)-1])
	}
	for line := range bytes.Lines(b) {
		var id, text string
		var r session.Receipt
		if _, err = fmt.Sscanf(string(line), "%s %d %s\n", &id, &r.Incarnation, &text); err == nil {
			r.ID, err = wire.ParseID(id)
		}
		raw, errHex := hex.DecodeString(text)
		if err = errors.Join(err, errHex); err != nil || len(raw) != len(r.Text) {
			return nil, fmt.Errorf("line %d is no id, incarnation and receipt", len(all)+2)
		}
		r.Text = identity.Receipt(raw)
		all = append(all, r)
	}
	return all, nil
}

// readReceipts reads what was kept; none if there is no file. One that cannot be read is kept aside: others have their own, and
// it must not keep the agent from starting.
func readReceipts(dir string, log hclog.Logger) []session.Receipt {
	path := filepath.Join(dir, receiptsName)
	content, err := durable.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var all []session.Receipt
	if err == nil {
		all, err = parseReceipts(content)
	}
	if err != nil {
		log.Warn("receipts of other hosts not readable; kept under another name and begun anew", "file", path+badSuffix, "err", err)
		_ = os.Rename(path, path+badSuffix) // else the next write takes its place
	}
	return all
}

// areOfOthers reports whether this host has met another one, in this life or an earlier one.
func areOfOthers(all []session.Receipt, self wire.ID) bool {
	return slices.ContainsFunc(all, func(r session.Receipt) bool { return r.ID != self })
}

// laterLife is the incarnation of a life that this host has had and its state knows nothing of, as its own receipt proves; zero:
// none is known here.
func (s *stateFile) laterLife() uint32 {
	content, err := durable.ReadFile(filepath.Join(s.dir, receiptsName))
	if err != nil || s.private.IsZero() {
		return 0
	}
	all, _ := parseReceipts(content)
	for _, r := range all {
		if r.ID == s.ID && r.Incarnation > s.saved.Incarnation && r.Text == s.private.Receipt(r.Incarnation) {
			return r.Incarnation
		}
	}
	return 0
}
