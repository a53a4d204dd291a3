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

// lookEvery bounds how often the files are looked at, which is done only while somebody
// connects. Arbitrary.
const lookEvery = 2 * time.Second

// maxPEM bounds either file. Arbitrary: a chain has some KiB.
const maxPEM = 1 << 20

// pair is a certificate and its key, read again when their files have changed. One that
// cannot be used keeps the last in service, and is named once.
type pair struct {
	cfg Config
	log hclog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	seen    [2]stamp  // the files as they were read last, or tried
	looked  time.Time // when they were looked at last
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
	cert, err := readPair(cfg)
	if err != nil {
		return "", err
	}
	return outOfDate(cfg.Cert, cert), nil
}

func openPair(cfg Config) (*pair, error) {
	p := &pair{cfg: cfg, log: hclog.NewNullLogger()}
	return p, p.read()
}

// read takes what the files have now, or keeps what there is.
func (p *pair) read() error {
	p.seen = [2]stamp{stampOf(p.cfg.Cert), stampOf(p.cfg.Key)}
	cert, err := readPair(p.cfg)
	if err == nil {
		p.current = cert
	}
	return err
}

// use has the pair say what it finds, at first how it is.
func (p *pair) use(log hclog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = log
	p.say("certificate in use")
}

// say names the certificate; the caller holds mu.
func (p *pair) say(text string) {
	if doubtful := outOfDate(p.cfg.Cert, p.current); doubtful != "" {
		p.log.Warn(doubtful)
		return
	}
	p.log.Info(text, "file", p.cfg.Cert, "subject", p.current.Leaf.Subject.String(), "until", p.current.Leaf.NotAfter)
}

// renew reads the files again if they have changed; force: in any case.
func (p *pair) renew(force bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = time.Now()
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

func (p *pair) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return p.now(), nil
	}}
}

// now is the pair to show to whoever connects.
func (p *pair) now() *tls.Certificate {
	p.mu.Lock()
	isDue := time.Since(p.looked) >= lookEvery
	p.mu.Unlock()
	if isDue {
		_ = p.renew(false) // said in the log
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

func readPair(cfg Config) (*tls.Certificate, error) {
	certPEM, err := readFile(cfg.Cert, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", cfg.Cert, err)
	}
	trusted := append(access.OfThisProcess(), cfg.Trusted...)
	keyPEM, err := readFile(cfg.Key, trusted)
	if err != nil {
		return nil, fmt.Errorf("key of the certificate %s: %w", cfg.Key, err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	clear(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: expected a pair in PEM: %w", cfg.Cert, cfg.Key, err)
	}
	return &cert, nil
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
		return nil, errors.New("expected a file")
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

// Renew reads the certificate again. After an error the last stays in use.
func (l *Listener) Renew() error {
	if l.pair == nil {
		return nil
	}
	return l.pair.renew(true)
}
