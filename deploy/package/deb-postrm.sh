if [ "$1" = purge ]; then
	# All that is this package's alone: key and settings, id and epoch, what enabled the service, and its drop-ins; the same of
	# instances, whose directories have their names at the end.
	rm -rf /etc/bully-agent
	for name in bully-agent 'bully-agent-*'; do
		find /etc/default /var/lib /run -maxdepth 1 -name "$name" -exec rm -rf {} +
	done
	rm -rf /etc/systemd/system/bully-agent.service.d /etc/systemd/system/bully-agent@*.service.d
	rm -f /etc/systemd/system/*.wants/bully-agent.service /etc/systemd/system/*.wants/bully-agent@*.service
	if getent passwd bully-agent >/dev/null && command -v userdel >/dev/null; then
		userdel bully-agent || say "the user bully-agent is left: something of it still runs"
	fi
	if getent group bully-agent >/dev/null && command -v groupdel >/dev/null; then
		groupdel bully-agent || true
	fi
fi
if booted_by_systemd; then
	systemctl --system daemon-reload || true
fi
