package vip

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAddressesAreRead(t *testing.T) {
	for _, tt := range []struct{ words, add, del string }{
		{"192.0.2.50/32", "192.0.2.50/32", "192.0.2.50/32"},
		{"192.0.2.50/24 2001:db8::50/64", "192.0.2.50/24 2001:db8::50/64", "192.0.2.50/24 2001:db8::50/64"},
		{"192.0.2.50/31", "192.0.2.50/31", "192.0.2.50/31"},
		{"192.0.2.51/31", "192.0.2.51/31", "192.0.2.51/31"},
		{"2001:db8::/127", "2001:db8::/127", "2001:db8::/127"},
		{"fe80::50/64", "fe80::50/64", "fe80::50/64"},
		{"192.0.2.50", `"192.0.2.50" has no prefix; write 192.0.2.50/32, or the prefix of the network`, "192.0.2.50"},
		{"2001:db8::50", `"2001:db8::50" has no prefix; write 2001:db8::50/128, or the prefix of the network`, "2001:db8::50"},
	} {
		for _, reads := range []struct {
			name string
			by   func([]string) (string, error)
			want string
		}{
			{"to add", func(w []string) (string, error) { p, err := Parse(w); return fmt.Sprint(p), err }, tt.add},
			{"to remove", func(w []string) (string, error) {
				p, err := ParseBare(w)
				if len(p) == 1 && !p[0].IsValid() {
					return p[0].Addr().String(), err
				}
				return fmt.Sprint(p), err
			}, tt.del},
		} {
			got, err := reads.by(strings.Fields(tt.words))
			if err != nil {
				got = complaint(t, err)
			}
			if strings.Trim(got, "[]") != reads.want {
				t.Errorf("%s %s: got %s, expected %s", tt.words, reads.name, got, reads.want)
			}
		}
	}
}

// complaint is all that a Complaint says.
func complaint(t *testing.T, err error) string {
	t.Helper()
	var c *Complaint
	if !errors.As(err, &c) || c.Class != Words {
		t.Fatalf("%v is not about words", err)
	}
	return c.What + "; " + c.Remedy
}

// None of these could be one host's address, and then another's.
func TestAddressesOfNoHostAreRefused(t *testing.T) {
	for words, want := range map[string]string{
		"":                            "an address is missing",
		"eth0":                        `"eth0" is not an address`,
		"192.0.2/24":                  `"192.0.2/24" is not an address`,
		"192.0.2.50/33":               `has the prefix "33": expected 1 to 32`,
		"192.0.2.50/":                 `has the prefix "": expected 1 to 32`,
		"192.0.2.50/0":                `has the prefix "0": expected 1 to 32`,
		"192.0.2.50/255.255.255.0":    `has the prefix "255.255.255.0": expected 1 to 32`,
		"2001:db8::50/129":            `has the prefix "129": expected 1 to 128`,
		"fe80::50%eth0/64":            "has a zone",
		"::ffff:192.0.2.50/128":       "in the form of an IPv6 address; write 192.0.2.50/32",
		"0.0.0.0/32":                  "is no host's address",
		"0.1.2.3/32":                  "is no host's address",
		"240.0.0.1/32":                "is no host's address",
		"::1.2.3.4/128":               "is no host's address",
		"::/128":                      "is no host's address",
		"127.0.0.1/8":                 "is a loopback address",
		"::1/128":                     "is a loopback address",
		"224.0.0.18/32":               "is a multicast address",
		"ff02::1/128":                 "is a multicast address",
		"255.255.255.255/32":          "is the broadcast address",
		"192.0.2.255/24":              "is the broadcast address",
		"192.0.2.0/24":                "is the address of the network 192.0.2.0/24",
		"2001:db8::/64":               "is the address of all routers of 2001:db8::/64",
		"192.0.2.50/32 192.0.2.50/24": "192.0.2.50 is named twice",
	} {
		_, err := Parse(strings.Fields(words))
		if err == nil {
			t.Errorf("%q is taken", words)
		} else if got := complaint(t, err); !strings.Contains(got, want) || strings.HasSuffix(got, "; ") {
			t.Errorf("%q: it says %q, expected %q and a remedy", words, got, want)
		}
	}
}
