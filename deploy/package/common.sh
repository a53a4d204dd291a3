# What the maintainer scripts of both kinds of package do; each of them begins with this.

booted_by_systemd() { [ -d /run/systemd/system ]; }

say() { echo "bully-agent: $*" >&2; }

make_user() {
	getent passwd bully-agent >/dev/null && return
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers bully-agent.conf
	elif command -v adduser >/dev/null && [ -e /etc/debian_version ]; then
		adduser --system --quiet --group --home /var/lib/bully-agent --no-create-home --shell /usr/sbin/nologin bully-agent
	else
		useradd --system --user-group --home-dir /var/lib/bully-agent --no-create-home --shell /usr/sbin/nologin bully-agent
	fi
}

# A unit made by hand goes before the package's, with whatever was right at its time.
name_shadows() {
	for unit in bully-agent.service bully-agent@.service; do
		if [ -f "/etc/systemd/system/$unit" ] && [ ! -L "/etc/systemd/system/$unit" ]; then
			say "/etc/systemd/system/$unit goes before the package's unit: remove it, then: systemctl daemon-reload"
		fi
	done
}

# restart_running restarts what runs, and only that. The stop is in order: a leader hands over first. An agent whose
# configuration this version refuses goes on as the version before. ctl is systemctl, in this distribution's way.
restart_running() {
	case $(ctl is-active bully-agent.service 2>/dev/null) in
	active | activating | reloading)
		if ! wrong=$(bully-agent config check --no-host 2>&1); then
			say "not restarted, since this version refuses the configuration; the agent goes on as the version before:"
			say "$wrong"
			say "mend it, then: systemctl restart bully-agent"
		else
			ctl try-restart bully-agent.service || say "the agent did not start again; see: systemctl status bully-agent"
		fi
		;;
	esac
	ctl try-restart 'bully-agent@*.service' || say "an instance did not start again; see: systemctl status 'bully-agent@*'"
}

stop_running() { ctl stop bully-agent.service 'bully-agent@*.service'; }
