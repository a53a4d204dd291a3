package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/access"
)

// made is a certificate that signs itself, and its key.
type made struct{ cert, key []byte }

func makePair(t *testing.T, name string, until time.Time) made {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: until.Add(-1000 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return made{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}
}

// write puts a file in the place of another, as those who renew certificates do.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// files has a pair in a directory that nobody else can write.
func files(t *testing.T, m made) Config {
	t.Helper()
	dir, err := os.MkdirTemp("/root", "pair")
	if err != nil {
		t.Skip("skipped: only root has a directory that nobody else could change: " + err.Error())
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := Config{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, cfg.Cert, m.cert)
	write(t, cfg.Key, m.key)
	return cfg
}

// trusting is a client that believes in one certificate alone.
func trusting(m made, name string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.cert)
	return &tls.Config{RootCAs: pool, ServerName: name}
}

func TestTLS(t *testing.T) {
	m := makePair(t, "alpha.example.com", time.Now().Add(time.Hour))
	s := serve(t, files(t, m), nil, nil)
	status, body, proto := get(t, "https://"+s.addr+"/ask", trusting(m, "alpha.example.com"), nil)
	if status != http.StatusOK || body != "yes" || proto != "HTTP/1.1" {
		t.Errorf("%d %q %s", status, body, proto)
	}
	// The certificate is what a foreign name does not have.
	if status, _, _ = get(t, "https://"+s.addr+"/ask", trusting(m, "alpha.example.com"), http.Header{"Host": {"alpha.example.com"}}); status != http.StatusOK {
		t.Errorf("its public name: %d", status)
	}
	old := trusting(m, "alpha.example.com")
	old.MaxVersion = tls.VersionTLS11
	if _, err := tls.Dial("tcp", s.addr, old); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if got := say(t, dial(t, "127.0.0.1", s.addr), question); got != http.StatusBadRequest {
		t.Errorf("in clear: %d", got)
	}
}

// A pair that cannot be used is one line, which names the file and what is wrong with it.
func TestBadPairs(t *testing.T) {
	good, other := makePair(t, "alpha", time.Now().Add(time.Hour)), makePair(t, "alpha", time.Now().Add(time.Hour))
	for name, tt := range map[string]struct {
		spoil func(Config)
		want  []string
	}{
		"mismatch":       {func(c Config) { write(t, c.Key, other.key) }, []string{"cert.pem", "key.pem", "expected a pair", "does not match"}},
		"key for cert":   {func(c Config) { write(t, c.Cert, good.key) }, []string{"cert.pem", "expected a pair in PEM"}},
		"no PEM":         {func(c Config) { write(t, c.Cert, []byte("hello")) }, []string{"cert.pem", "expected a pair in PEM"}},
		"empty key":      {func(c Config) { write(t, c.Key, nil) }, []string{"key.pem", "expected a pair in PEM"}},
		"no certificate": {func(c Config) { os.Remove(c.Cert) }, []string{"certificate", "cert.pem", "no such file"}},
		"no key":         {func(c Config) { os.Remove(c.Key) }, []string{"key of the certificate", "key.pem", "no such file"}},
		"readable key":   {func(c Config) { os.Chmod(c.Key, 0o644) }, []string{"key.pem", "readable by everyone", "chmod o-r"}},
		"key of another": {func(c Config) { os.Chown(c.Key, 12345, 0) }, []string{"key.pem", "owned by uid 12345", "chown root"}},
		"open directory": {func(c Config) { os.Chmod(filepath.Dir(c.Key), 0o777) }, []string{"writable by everyone", "chmod o-w"}},
		"directory":      {func(c Config) { os.Remove(c.Cert); os.Mkdir(c.Cert, 0o700) }, []string{"cert.pem", "it is a directory: expected a file in PEM"}},
		"FIFO":           {func(c Config) { os.Remove(c.Cert); syscall.Mkfifo(c.Cert, 0o600) }, []string{"cert.pem", "it is a FIFO: expected a file in PEM"}},
		"huge":           {func(c Config) { os.Truncate(c.Cert, 1<<30) }, []string{"cert.pem", "1073741824 bytes"}},
	} {
		cfg := files(t, good)
		tt.spoil(cfg)
		_, err := CheckPair(cfg)
		if err == nil {
			t.Errorf("%s: it can be used", name)
			continue
		}
		for _, want := range append(tt.want, cfg.Key[:5]) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if strings.Count(err.Error(), cfg.Key) > 1 || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %q", name, err)
		}
		if open := (*access.Error)(nil); name == "readable key" && !errors.As(err, &open) || name == "no key" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q does not wrap what access has found", name, err)
		}
		if _, err := OpenPair(cfg); err == nil {
			t.Errorf("%s: it is opened", name)
		}
	}
}

// A link, as certbot has one, is followed; and a key of the agent's own user is as good as root's.
func TestGoodPairs(t *testing.T) {
	cfg := files(t, makePair(t, "alpha", time.Now().Add(time.Hour)))
	link := cfg.Key + ".link"
	if err := os.Symlink(cfg.Key, link); err != nil {
		t.Fatal(err)
	}
	cfg.Key = link
	if doubtful, err := CheckPair(cfg); err != nil || doubtful != "" {
		t.Errorf("a link: %q, %v", doubtful, err)
	}
	if err := os.Chown(link, 12345, 0); err != nil { // of the file behind it
		t.Fatal(err)
	}
	cfg.Trusted = []uint32{12345}
	if _, err := CheckPair(cfg); err != nil {
		t.Errorf("a key of the agent's user: %v", err)
	}
}

// A certificate that has expired is served, so that the agent starts, and said.
func TestPairThatIsOver(t *testing.T) {
	cfg := files(t, makePair(t, "alpha", time.Now().Add(-time.Hour)))
	doubtful, err := CheckPair(cfg)
	if err != nil || !strings.Contains(doubtful, "expired at") || !strings.Contains(doubtful, cfg.Cert) {
		t.Errorf("%q, %v", doubtful, err)
	}
	s := serve(t, cfg, nil, nil)
	if c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true}); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if s.logs.count("expired at") != 1 {
		t.Errorf("log: %s", s.logs.text.String())
	}
	write(t, cfg.Cert, makePair(t, "alpha", time.Now().Add(1500*time.Hour)).cert) // valid from later on, and of another key
	if doubtful, err := CheckPair(cfg); err == nil {
		t.Errorf("%q", doubtful)
	}
}

// Who connects after the files have changed gets the new pair. While only one of them has
// changed, the last is in use, and that is said once.
func TestPairIsReadAgain(t *testing.T) {
	first, second := makePair(t, "alpha", time.Now().Add(time.Hour)), makePair(t, "alpha", time.Now().Add(2*time.Hour))
	cfg := files(t, first)
	s := serve(t, cfg, nil, nil)
	shown := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ConnectionState().PeerCertificates[0].Raw}))
	}
	if shown() != string(first.cert) {
		t.Fatal("the first is not shown")
	}
	write(t, cfg.Cert, second.cert)
	for range 3 {
		if shown() != string(first.cert) {
			t.Fatal("half a pair is shown")
		}
	}
	if n := s.logs.count("certificate not reloaded"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.logs.text.String())
	}
	if err := s.pair.Renew(); err == nil {
		t.Error("a reload takes half a pair")
	}
	write(t, cfg.Key, second.key)
	if shown() != string(second.cert) {
		t.Error("the second is not shown")
	}
	if err := os.Remove(cfg.Key); err != nil {
		t.Fatal(err)
	}
	if shown() != string(second.cert) {
		t.Error("what is gone from the disk is gone from service")
	}
	if err := s.pair.Renew(); err == nil {
		t.Error("a reload takes no key")
	}
}
