#!/usr/bin/env bash
# The whole walkthrough, steps 1 to 5 in order.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
for script in 01-create-strategy 02-create-bucket 03-create-etcd-src 04-create-backupjob 05-restore-in-place; do
  "$HERE/$script.sh"
done
step "Done in $SECONDS s. To remove it all: $HERE/cleanup.sh"
