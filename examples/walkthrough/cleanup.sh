#!/usr/bin/env bash
# Removes what the walkthrough made, as far as it is there; one failure does not keep it from the rest.
# The stored snapshot stays in the bucket, unless its Backup says deletionPolicy: Delete. The namespace stays too.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "Cleaning up"

failed=0
remove() { kubectl delete --ignore-not-found --wait --timeout=120s "$@" || failed=1; }
# remove_if GROUP/VERSION PLURAL ARGS...
remove_if() {
  local group=$1 plural=$2
  shift 2
  if served "$group" "$plural"; then remove "$plural.${group%/*}" "$@"; fi
}

backups=backups.cozystack.io/v1alpha1
backup=$(value backupjobs.backups.cozystack.io "$BACKUPJOB_NAME" '{.status.backupRef.name}' || true)
remove_if $backups restorejobs -n "$NAMESPACE" "$RESTOREJOB_INPLACE_NAME"
remove_if $backups backupjobs -n "$NAMESPACE" "$BACKUPJOB_NAME"
[[ -z $backup ]] || remove_if $backups backups -n "$NAMESPACE" "$backup"
remove_if etcd-operator.cozystack.io/v1alpha2 etcdsnapshots -n "$NAMESPACE" \
  -l "backups.cozystack.io/owned-by.BackupJobName=$BACKUPJOB_NAME"
# The snapshots that restores took of the old data before they began.
remove_if etcd-operator.cozystack.io/v1alpha2 etcdsnapshots -n "$NAMESPACE" -l etcd-warden.io/restore-job-uid
if served apps.cozystack.io/v1alpha1 etcds; then
  remove -n "$NAMESPACE" etcds.apps.cozystack.io "$ETCD_NAME"
else
  remove_if etcd-operator.cozystack.io/v1alpha2 etcdclusters -n "$NAMESPACE" etcd
fi
remove_if $backups backupclasses "$BACKUPCLASS_NAME"
remove_if "$STRATEGY_GROUP/v1alpha1" etcds "$STRATEGY_NAME"
remove -n "$NAMESPACE" secret "$CREDENTIALS_NAME"
# The claim last: its bucket may go with it. Ours only where it was claimed, not given.
remove_if objectstorage.k8s.io/v1alpha1 bucketaccesses -n "$NAMESPACE" "$BUCKET_NAME"
remove_if objectstorage.k8s.io/v1alpha1 bucketclaims -n "$NAMESPACE" "$BUCKET_NAME"
rm -f "$BUCKET_INFO"
(( failed == 0 )) || fail "not everything could be removed; the messages above say what"
