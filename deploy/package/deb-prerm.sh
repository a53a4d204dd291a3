# In an upgrade the agent goes on until the new version is there.
if [ "$1" = remove ] && booted_by_systemd; then
	stop_running
fi
