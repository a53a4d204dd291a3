package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Resolve gives the SRV records of a name, as net.Resolver.LookupSRV does.
type Resolve func(ctx context.Context, name string) ([]*net.SRV, error)

// records are the SRV records of a name. Which of them is preferred does not matter: all are
// tried.
type records struct {
	name    string
	resolve Resolve
	check   func(string) error
}

func newRecords(name string, cfg Config) *records {
	r := &records{name: name, resolve: cfg.Resolve, check: cfg.Check}
	if r.resolve == nil {
		r.resolve = func(ctx context.Context, name string) ([]*net.SRV, error) {
			_, all, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
			return all, err
		}
	}
	return r
}

// Find implements Source. The names that the records point to are resolved by whoever tries
// them.
func (r *records) Find(ctx context.Context) ([]string, error) {
	ctx, end := context.WithTimeout(ctx, Timeout)
	defer end()
	all, err := r.resolve(ctx, r.name)
	switch missing := (*net.DNSError)(nil); {
	case errors.As(err, &missing) && missing.IsNotFound, err == nil && len(all) == 0:
		return nil, fmt.Errorf("%s has no SRV records", r.name)
	case err != nil:
		err = fmt.Errorf("look up SRV records: %w", err)
	}
	var hosts []string
	for _, record := range all {
		if host, bad := r.host(record); bad != nil {
			err = errors.Join(err, bad)
		} else {
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

// host is what a record points to. The root means that there is decidedly nobody (RFC 2782).
func (r *records) host(record *net.SRV) (string, error) {
	switch {
	case record.Target == "." || record.Target == "":
		return "", errors.New("a record says that there is no host")
	case record.Port == 0:
		return "", fmt.Errorf("the record of %s has no port", record.Target)
	}
	host := net.JoinHostPort(record.Target, strconv.Itoa(int(record.Port)))
	return host, r.check(host)
}

// Close implements Source.
func (r *records) Close() {}
