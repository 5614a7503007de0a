#!/usr/bin/env bash
# Step 3, for the tenant: an etcd cluster, and a key in it by which the restore will be recognised.
# Where the platform serves the application Etcd that is used; elsewhere the EtcdCluster that it would make.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "etcd in namespace $NAMESPACE"

if served apps.cozystack.io/v1alpha1 etcds; then
  [[ $ETCD_NAME == etcd ]] || fail "ETCD_NAME must be etcd: the platform's chart admits no other release name"
  kubectl -n "$NAMESPACE" apply -f - <<YAML
apiVersion: apps.cozystack.io/v1alpha1
kind: Etcd
metadata:
  name: $ETCD_NAME
spec:
  replicas: $ETCD_REPLICAS
  version: "$ETCD_VERSION"
  size: $ETCD_SIZE
YAML
else
  kubectl -n "$NAMESPACE" apply -f - <<YAML
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata:
  name: etcd
spec:
  replicas: $ETCD_REPLICAS
  version: "$ETCD_VERSION"
  storage:
    size: $ETCD_SIZE
YAML
fi

start=$SECONDS
await "$WAIT_SECONDS" "EtcdCluster etcd to be Available (kubectl -n $NAMESPACE describe etcdcluster etcd)" available
say "Available after $((SECONDS - start)) s:"
kubectl -n "$NAMESPACE" get etcdclusters.etcd-operator.cozystack.io etcd

write_sentinel "$SENTINEL_VALUE" >/dev/null
say "wrote $SENTINEL_KEY = $(read_sentinel)"
