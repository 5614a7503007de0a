#!/usr/bin/env bash
# Step 1, for the administrator: the cluster-wide strategy, a template of where snapshots of etcd go.
# The coordinates are filled in later, from the parameters of the BackupClass.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "Strategy $STRATEGY_NAME"

ca=
if [[ -n ${S3_CA_FILE:-} ]]; then
  ca="caSecretRef: {name: '{{ .Parameters.credentialsSecretName }}', key: ca.crt}"
fi

kubectl apply -f - <<YAML
apiVersion: $STRATEGY_GROUP/v1alpha1
kind: Etcd
metadata:
  name: $STRATEGY_NAME
spec:
  template:
    destination:
      s3:
        endpoint: "{{ .Parameters.endpoint }}"
        bucket: "{{ .Parameters.bucket }}"
        key: "{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/"
        region: "{{ .Parameters.region }}"
        forcePathStyle: true
        credentialsSecretRef:
          name: "{{ .Parameters.credentialsSecretName }}"
        $ca
YAML
