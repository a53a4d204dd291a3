make_user
share_settings
if booted_by_systemd; then
	systemctl --system daemon-reload || true
	name_shadows
	# $1: how many of this package there are now; 1 is the first, and nothing is started then.
	[ "$1" -le 1 ] || restart_running
fi
