# 0: none is left afterwards. In an upgrade the agent goes on until the new version is there.
if [ "$1" -eq 0 ] && booted_by_systemd; then
	stop_running
	for link in /etc/systemd/system/*.wants/bully-agent.service /etc/systemd/system/*.wants/bully-agent@*.service; do
		[ ! -L "$link" ] || systemctl disable --quiet "${link##*/}" || true
	done
fi
