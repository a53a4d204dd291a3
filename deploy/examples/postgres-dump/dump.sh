#!/bin/sh
# dump.sh DATABASE DIRECTORY [KEEP]: dump a PostgreSQL database into a directory that all hosts share, and keep the newest
# KEEP dumps there, 14 if not given. `bully-agent exec` runs it: it says in BULLY_EPOCH and BULLY_EPOCH_OWNER for which
# leadership, and sends TERM when that ends.
set -eu
database=$1
directory=$2
keep=${3:-14}

# still_ours fails with 6 when the directory has seen a newer leadership than the one that this run belongs to.
still_ours() {
	bully-agent fence check --must-exist --file "$directory/.fence" --epoch "$BULLY_EPOCH/$BULLY_EPOCH_OWNER"
}

still_ours
partial=$directory/.partial-$BULLY_EPOCH-$BULLY_EPOCH_OWNER-$$
trap 'rm -f "$partial"' EXIT
trap 'exit 143' TERM INT HUP # and so the line above is done
pg_dump --format=custom --file="$partial" "$database"

still_ours # it may have taken hours
mv "$partial" "$directory/$(date -u +%Y%m%dT%H%M%SZ)-epoch$BULLY_EPOCH.dump"

set -- "$directory"/*.dump # by name, which is by age
while [ $# -gt "$keep" ]; do
	rm -f "$1"
	shift
done
find "$directory" -name '.partial-*' -mtime +1 -exec rm -f {} + # of hosts that died
