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

# The settings are root's, and the service's group reads them. A file that has another group has it from somebody.
share_settings() {
	file=/etc/bully-agent/agent.toml
	[ -f "$file" ] && [ ! -L "$file" ] || return 0
	[ "$(stat -c %u:%g "$file")" != 0:0 ] || chgrp bully-agent "$file"
}

# A unit made by hand goes before the package's, with whatever was right at its time.
name_shadows() {
	for unit in bully-agent.service bully-agent@.service; do
		if [ -f "/etc/systemd/system/$unit" ] && [ ! -L "/etc/systemd/system/$unit" ]; then
			say "/etc/systemd/system/$unit goes before the package's unit: remove it, then: systemctl daemon-reload"
		fi
	done
}

# settings exports the BULLY_ variables of an EnvironmentFile=, read as systemd does: no shell's file, and nothing of it is run.
settings() {
	[ -r "$1" ] || return 0
	while IFS= read -r line; do
		case $line in *=*) name=${line%%=*} value=${line#*=} ;; *) continue ;; esac
		case $name in BULLY_*[!A-Z0-9_]*) continue ;; BULLY_*) ;; *) continue ;; esac
		value=${value%"${value##*[![:space:]]}"}
		case $value in
		\'*\') value=${value#?} value=${value%?} ;;
		\"*\") value=$(printf '%s\n' "$value" | sed 's/^"//; s/"$//; s/\\\(["\\$`]\)/\1/g') ;;
		*) value=$(printf '%s\n' "$value" | sed 's/\\\(.\)/\1/g') ;;
		esac
		export "$name=$value"
	done <<-END
		$(sed -e :a -e '/\\$/{ N; s/\\\n//; ta' -e '}' -e 's/^[[:space:]]*//' "$1")
	END
}

# check_unit is the check of what a unit's agent would start with: its instance's file, its variables, and none of the caller's.
check_unit() (
	for name in $(env | sed -n 's/^\(BULLY_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
	case $1 in
	*@*)
		BULLY_INSTANCE=${1#*@} BULLY_INSTANCE=${BULLY_INSTANCE%.service}
		export BULLY_INSTANCE
		settings "/etc/default/bully-agent-$BULLY_INSTANCE"
		;;
	*) settings "/etc/default/bully-agent" ;;
	esac
	exec bully-agent config check --no-host
)

# running lists the units that run: a question, for which there is no other program than systemctl, as there is for orders.
running() {
	units=$(systemctl list-units --plain --no-legend --state=active,activating,reloading bully-agent.service 'bully-agent@*.service') || return 0
	printf '%s\n' "$units" | cut -d ' ' -f 1
}

# restart_running restarts what runs, and only that, one after the other. The stop is clean: a leader hands over first. An
# agent whose configuration this version refuses goes on as the version before. ctl is systemctl, in this distribution's way.
restart_running() {
	for unit in $(running); do
		if wrong=$(check_unit "$unit" 2>&1 </dev/null); then
			ctl try-restart "$unit" </dev/null || say "$unit did not start again; see: systemctl status $unit"
		else
			say "$unit is not restarted, since this version refuses its configuration, and goes on as the version before:" \
				"$(printf %s "$wrong" | tr '\n' ';'); mend it, then: systemctl restart $unit"
		fi
	done
}

stop_running() {
	ctl stop bully-agent.service 'bully-agent@*.service' || say "an agent did not stop; see: systemctl status 'bully-agent*'"
}
