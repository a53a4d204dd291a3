package boot

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Two hosts come up, reach one another by name, keep what they wrote over a restart and a loss of power, and leave nothing.
func TestHosts(t *testing.T) {
	var dir string
	t.Run("hosts", func(t *testing.T) {
		lan := NewLAN(t, "alpha", "beta")
		dir = lan.dir
		alpha, beta := lan.Host("alpha"), lan.Host("beta")
		begin := time.Now()
		alpha.Boot()
		t.Logf("a boot takes %v", time.Since(begin))
		beta.Boot()
		if state := strings.TrimSpace(alpha.Must("systemctl is-system-running || true")); state != "running" && state != "degraded" {
			t.Errorf("the system is %s", state)
		}
		if out := alpha.Must("getent hosts beta"); !strings.HasPrefix(out, Address(2).String()) {
			t.Errorf("beta is %q", out)
		}
		if alpha.Must("cat /etc/machine-id") == beta.Must("cat /etc/machine-id") {
			t.Error("two hosts have one machine ID")
		}
		meet(t, lan)

		before := alpha.Must("echo kept >/var/lib/kept; cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1")
		alpha.Reboot()
		if after := alpha.Must("cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1"); after == before {
			t.Error("the first process is the one before the reboot")
		}
		for _, end := range []func(){alpha.Kill, alpha.Poweroff} {
			if kept := alpha.Must("cat /var/lib/kept"); kept != "kept\n" {
				t.Errorf("after a restart the file has %q", kept)
			}
			end()
			alpha.Boot()
		}
	})
	if dir == "" {
		t.Skip("skipped: as its part")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s remains: %v", dir, err)
	}
}

// meet sends a datagram from one host's network to the other's, through the bridge.
func meet(t *testing.T, lan *LAN) {
	t.Helper()
	var at *net.UDPConn
	err := lan.Host("beta").net.Within(func() (err error) {
		at, err = net.ListenUDP("udp", &net.UDPAddr{IP: Address(2).AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	err = lan.Host("alpha").net.Within(func() error {
		c, err := net.Dial("udp", at.LocalAddr().String())
		if err == nil {
			_, err = c.Write([]byte("hello"))
			c.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = at.SetReadDeadline(time.Now().Add(patience))
	if n, err := at.Read(make([]byte, 16)); err != nil || n != len("hello") {
		t.Errorf("read %d bytes: %v", n, err)
	}
}
