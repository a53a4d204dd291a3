# 0: none is left afterwards. In an upgrade the agent goes on until the new version is there.
if [ "$1" -eq 0 ] && booted_by_systemd; then
	stop_running
	systemctl disable --quiet bully-agent.service || true
fi
