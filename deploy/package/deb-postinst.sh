case $1 in
configure)
	make_user
	share_settings
	if booted_by_systemd; then
		systemctl --system daemon-reload || true
		name_shadows
		# $2: the version before; empty where there was none, and nothing is started then.
		[ -z "$2" ] || restart_running
	fi
	;;
abort-upgrade | abort-remove | abort-deconfigure) ;;
*)
	say "postinst called with unknown argument $1"
	exit 1
	;;
esac
