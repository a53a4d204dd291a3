if booted_by_systemd; then
	systemctl --system daemon-reload || true
fi
