#!/bin/sh
# A notify script as keepalived runs it: INSTANCE|GROUP, name, MASTER|BACKUP|FAULT|STOP, priority. Yours stays as it is.
set -eu
kind=$1 name=$2 state=$3 priority=$4
case $state in
MASTER) systemctl start haproxy ;;
BACKUP | FAULT | STOP) systemctl stop haproxy ;;
*)
	echo "unknown state $state of $kind $name, priority $priority" >&2
	exit 1 ;;
esac
