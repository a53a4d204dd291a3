package httpd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/access"
)

// maxPEM bounds either file. Arbitrary: a chain has some KiB.
const maxPEM = 1 << 20

// ErrKey is wrapped by the error of a pair whose key file cannot be read, or is open to others.
var ErrKey = errors.New("key of the certificate")

// Pair is a certificate and its key, read again when their files have changed. One that
// cannot be used keeps the last in service, and is named once. It is safe for concurrent use.
type Pair struct {
	cfg Config
	log hclog.Logger

	mu      sync.Mutex
	current read
	seen    [2]stamp // the files as they were read last, or tried
}

// read is a pair that works.
type read struct {
	certificate     *tls.Certificate
	certPEM, keyPEM []byte
}

// stamp tells one content of a file from the next.
type stamp struct {
	size     int64
	modified time.Time
	inode    fs.FileInfo // for os.SameFile; nil: there is none
}

func (s stamp) is(other stamp) bool {
	if s.inode == nil || other.inode == nil {
		return s.inode == nil && other.inode == nil
	}
	return s.size == other.size && s.modified.Equal(other.modified) && os.SameFile(s.inode, other.inode)
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime(), info}
}

// CheckPair reads a certificate and its key as Listen does. doubtful is what is wrong with a
// pair that works: it has expired, or is not valid yet.
func CheckPair(cfg Config) (doubtful string, err error) {
	found, err := readPair(cfg)
	if err != nil {
		return "", err
	}
	return outOfDate(cfg.Cert, found.certificate), nil
}

// OpenPair reads a certificate and its key.
func OpenPair(cfg Config) (*Pair, error) {
	p := &Pair{cfg: cfg, log: hclog.NewNullLogger()}
	return p, p.read()
}

// read takes what the files have now, or keeps what there is.
func (p *Pair) read() error {
	p.seen = [2]stamp{stampOf(p.cfg.Cert), stampOf(p.cfg.Key)}
	found, err := readPair(p.cfg)
	if err == nil {
		p.current = found
	}
	return err
}

// Use has the pair say what it finds, at first how it is.
func (p *Pair) Use(log hclog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = log
	p.say("certificate in use")
}

// say names the certificate; the caller holds mu.
func (p *Pair) say(text string) {
	if doubtful := outOfDate(p.cfg.Cert, p.current.certificate); doubtful != "" {
		p.log.Warn(doubtful)
		return
	}
	p.log.Info(text, "file", p.cfg.Cert, "subject", p.current.certificate.Leaf.Subject.String(), "until", p.current.certificate.Leaf.NotAfter)
}

// Look reads the files again if they have changed, and says in the log what came of it.
func (p *Pair) Look() { _ = p.renew(false) }

// Renew reads the files again in any case. After an error the last stays in use.
func (p *Pair) Renew() error { return p.renew(true) }

// renew reads the files again if they have changed; force: in any case.
func (p *Pair) renew(force bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	isSame := p.seen[0].is(stampOf(p.cfg.Cert)) && p.seen[1].is(stampOf(p.cfg.Key))
	if isSame && !force {
		return nil
	}
	if err := p.read(); err != nil {
		p.log.Warn("certificate not reloaded; the last stays in use", "err", err)
		return err
	}
	p.say("certificate reloaded")
	return nil
}

// PEM is the pair in use, as its files have it.
func (p *Pair) PEM() (cert, key []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.certPEM, p.current.keyPEM
}

func readPair(cfg Config) (read, error) {
	certPEM, err := readFile(cfg.Cert, nil)
	if err != nil {
		return read{}, fmt.Errorf("certificate %s: %w", cfg.Cert, err)
	}
	trusted := append(access.OfThisProcess(), cfg.Trusted...)
	keyPEM, err := readFile(cfg.Key, trusted)
	if err != nil {
		return read{}, fmt.Errorf("%w %s: %w", ErrKey, cfg.Key, access.Beside(cfg.Key, err))
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		clear(keyPEM)
		return read{}, fmt.Errorf("certificate %s and key %s: expected a pair in PEM: %w", cfg.Cert, cfg.Key, err)
	}
	return read{&cert, certPEM, keyPEM}, nil
}

// readFile reads a file that, if trusted is not nil, only those may read or change.
func readFile(path string, trusted access.Trusted) ([]byte, error) {
	if trusted != nil {
		if err := trusted.Walk(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold the agent up
	if err != nil {
		return nil, errors.Unwrap(err) // the path is said already
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is %s: expected a file in PEM", access.Kind(info.Mode()))
	case info.Size() > maxPEM:
		return nil, fmt.Errorf("it has %d bytes: expected PEM, at most %d", info.Size(), maxPEM)
	case trusted != nil:
		if err := trusted.Private(path, info); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, maxPEM))
}

// outOfDate says why clients would refuse the certificate for its dates.
func outOfDate(path string, cert *tls.Certificate) string {
	now, leaf := time.Now(), cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Sprintf("certificate %s expired at %s: clients refuse it until it is renewed", path, leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Sprintf("certificate %s is valid from %s: clients refuse it until then; is this host's clock right?", path, leaf.NotBefore.Format(time.RFC3339))
	}
	return ""
}
