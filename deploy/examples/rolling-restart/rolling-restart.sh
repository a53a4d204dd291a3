#!/bin/sh
# rolling-restart.sh HOST... restarts the agents of these hosts, one after the other, and goes on only while the rest
# can do without the next one. A host that leads hands over first. It ends with an error, and the host in maintenance,
# where a host is not well again in time.
#
# ON        how a host is given a command: ssh HOST COMMAND
# RESTART   what restarts the agent there; "reboot" does as well
# PATIENCE  seconds that a host may take until it is well
set -eu
on=${ON:-ssh}
restart=${RESTART:-systemctl restart bully-agent}
patience=${PATIENCE:-300}

# may_stop HOST waits until the others can do without HOST, and says who leads then.
may_stop() {
	left=$patience
	until said=$($on "$1" bully-agent ok-to-stop 2>&1); do
		if [ "$left" -le 0 ]; then
			echo "$1: $said" >&2
			return 1
		fi
		left=$((left - 1))
		sleep 1
	done
	echo "$1: $said"
}

for host in "$@"; do
	may_stop "$host"
	$on "$host" bully-agent maintenance on --reason rolling-restart --for 1h
	$on "$host" "$restart" || true # a reboot ends the connection
	may_stop "$host" # it is back, and knows a leader
	$on "$host" bully-agent maintenance off
done
