#!/usr/bin/env bash
# Step 4, for the tenant: one backup.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "BackupJob $BACKUPJOB_NAME"

replace backupjobs.backups.cozystack.io "$BACKUPJOB_NAME"
kubectl -n "$NAMESPACE" create -f - <<YAML
apiVersion: backups.cozystack.io/v1alpha1
kind: BackupJob
metadata:
  name: $BACKUPJOB_NAME
spec:
  applicationRef:
    apiGroup: apps.cozystack.io
    kind: Etcd
    name: $ETCD_NAME
  backupClassName: $BACKUPCLASS_NAME
YAML
await_job backupjobs.backups.cozystack.io "$BACKUPJOB_NAME"

backup=$(value backupjobs.backups.cozystack.io "$BACKUPJOB_NAME" '{.status.backupRef.name}')
say "Backup $backup:"
kubectl -n "$NAMESPACE" get backups.backups.cozystack.io "$backup" -o 'jsonpath={range .status.artifact}  object    {.uri}{"\n"}  bytes     {.sizeBytes}{"\n"}  checksum  {.checksum}{"\n"}  revision  {.revision}{"\n"}  etcd      {.etcdVersion}{"\n"}{end}'
