// Package boot starts whole hosts for tests: Debian with systemd as its first process, in containers of systemd-nspawn on
// one bridge. What a package, a unit or a reboot does is then done by the real thing.
//
//	func TestUnit(t *testing.T) {
//		lan := boot.NewLAN(t, "alpha", "beta") // skips the test where this machine cannot boot hosts, and says why
//		alpha := lan.Host("alpha")             // 10.81.0.1, and its name is in everybody's /etc/hosts
//		alpha.Push("/usr/bin/bully-agent", binary, 0o755)
//		alpha.Boot()                           // returns when systemd says that all of it is up
//		alpha.Must("systemctl start bully-agent")
//		out, err := alpha.Run("systemctl is-active bully-agent")
//		alpha.Kill()                           // the power fails; Poweroff and Reboot are clean
//		alpha.Boot()                           // with the disk as it was left
//		t.Run("part", func(t *testing.T) { alpha.In(t).Must("true") })
//	}
//
// Everything goes with the test. A host's disk is an overlay on a root that all share, which debootstrap makes once, in a
// minute or two and with the network: in the directory that BULLY_E2E_ROOT names, or below the user's cache. Tests need root
// and BULLY_E2E=long.
//
// A host has the network of netlab: LAN.Net gives more hosts, such as a client that needs no system, and LAN.Cable a host's
// cable, to pull it.
package boot
