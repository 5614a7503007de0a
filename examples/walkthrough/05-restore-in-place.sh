#!/usr/bin/env bash
# Step 5, for the tenant: the data goes wrong, and the restore brings it back.
# While it runs every client of this etcd is cut off; in a real restore stop them first.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "RestoreJob $RESTOREJOB_INPLACE_NAME"

backup=$(value backupjobs.backups.cozystack.io "$BACKUPJOB_NAME" '{.status.backupRef.name}')
[[ -n $backup ]] || fail "BackupJob $BACKUPJOB_NAME in namespace $NAMESPACE names no Backup: run 04-create-backupjob.sh first"

write_sentinel "$CHANGED_VALUE" >/dev/null
say "the damage: $SENTINEL_KEY = $(read_sentinel)"

# No targetApplicationRef: a restore always goes back into the application that the Backup was made of.
replace restorejobs.backups.cozystack.io "$RESTOREJOB_INPLACE_NAME"
kubectl -n "$NAMESPACE" create -f - <<YAML
apiVersion: backups.cozystack.io/v1alpha1
kind: RestoreJob
metadata:
  name: $RESTOREJOB_INPLACE_NAME
spec:
  backupRef:
    name: $backup
YAML
await_job restorejobs.backups.cozystack.io "$RESTOREJOB_INPLACE_NAME"

await 60 "$SENTINEL_KEY to have the value from the backup" sentinel_is "$SENTINEL_VALUE"
say "restored: $SENTINEL_KEY = $(read_sentinel)"
say "what the restore did:"
kubectl -n "$NAMESPACE" get restorejobs.backups.cozystack.io "$RESTOREJOB_INPLACE_NAME" \
  -o 'jsonpath={range .status.conditions[*]}  {.lastTransitionTime}  {.type}={.status}  {.reason}{"\n"}{end}' | sort -s -k 1,1
message=$(value restorejobs.backups.cozystack.io "$RESTOREJOB_INPLACE_NAME" '{.status.message}')
[[ -z $message ]] || say "  $message"
