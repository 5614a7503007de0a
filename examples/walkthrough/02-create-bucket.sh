#!/usr/bin/env bash
# Step 2, for the tenant: a bucket, its credentials as a Secret, and the BackupClass that names both.
# Where the COSI API is served a BucketClaim gets the bucket. Elsewhere an existing one is used:
# S3_ENDPOINT, S3_BUCKET, S3_ACCESS_KEY, S3_SECRET_KEY and, for a private CA, S3_CA_FILE.
# shellcheck source-path=SCRIPTDIR source=00-helpers.sh
. "$(dirname "${BASH_SOURCE[0]}")/00-helpers.sh"
need kubectl
step "Bucket and BackupClass $BACKUPCLASS_NAME"

# class_of KIND ENVIRONMENT_VARIABLE: the COSI class to use: the tenant's own, or the only one there is.
class_of() {
  local kind=$1 variable=$2 classes
  classes=$(kubectl get "$kind.objectstorage.k8s.io" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
  if grep -qx -- "$NAMESPACE" <<<"$classes"; then echo "$NAMESPACE"; return; fi
  [[ -n $classes && $classes != *$'\n'* ]] ||
    fail "set $variable to one of the $kind of this cluster: ${classes//$'\n'/, }"
  echo "$classes"
}

# claim_bucket: asks COSI for a bucket and for credentials, and reads both into S3_*.
claim_bucket() {
  need jq base64
  local secret=${BUCKET_NAME}-${ETCD_NAME}-access info
  : "${BUCKET_CLASS:=$(class_of bucketclasses BUCKET_CLASS)}"
  : "${BUCKET_ACCESS_CLASS:=$(class_of bucketaccessclasses BUCKET_ACCESS_CLASS)}"
  kubectl -n "$NAMESPACE" apply -f - <<YAML
apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketClaim
metadata:
  name: $BUCKET_NAME
spec:
  bucketClassName: $BUCKET_CLASS
  protocols: [s3]
---
apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketAccess
metadata:
  name: $BUCKET_NAME
spec:
  bucketAccessClassName: $BUCKET_ACCESS_CLASS
  bucketClaimName: $BUCKET_NAME
  credentialsSecretName: $secret
  protocol: s3
YAML
  await 300 "Secret $secret from COSI" has_key "$secret" BucketInfo
  info=$(value secret "$secret" '{.data.BucketInfo}' | base64 -d)
  S3_ENDPOINT=$(jq -r '.spec.secretS3.endpoint' <<<"$info")
  S3_BUCKET=$(jq -r '.spec.bucketName' <<<"$info")
  S3_ACCESS_KEY=$(jq -r '.spec.secretS3.accessKeyID' <<<"$info")
  S3_SECRET_KEY=$(jq -r '.spec.secretS3.accessSecretKey' <<<"$info")
  local region
  region=$(jq -r '.spec.secretS3.region // ""' <<<"$info")
  ETCD_REGION=${region:-$ETCD_REGION}
}

has_key() { [[ -n $(value secret "$1" "{.data.$2}") ]]; }

kubectl create namespace "$NAMESPACE" --dry-run=client -o yaml | kubectl apply -f -

if [[ -n ${S3_ENDPOINT:-} ]]; then
  for name in S3_BUCKET S3_ACCESS_KEY S3_SECRET_KEY; do
    [[ -n ${!name:-} ]] || fail "S3_ENDPOINT is set and $name is not"
  done
elif served objectstorage.k8s.io/v1alpha1 bucketclaims; then
  claim_bucket
else
  fail "no bucket: this cluster does not serve BucketClaims (objectstorage.k8s.io/v1alpha1);" \
    "set S3_ENDPOINT, S3_BUCKET, S3_ACCESS_KEY, S3_SECRET_KEY and, for a private CA, S3_CA_FILE"
fi

# The values stay out of every command line: a process list shows those to everybody on the machine.
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
(
  umask 077
  printf %s "$S3_ACCESS_KEY" >"$files/AWS_ACCESS_KEY_ID"
  printf %s "$S3_SECRET_KEY" >"$files/AWS_SECRET_ACCESS_KEY"
  [[ -z ${S3_CA_FILE:-} ]] || cp "$S3_CA_FILE" "$files/ca.crt"
  rm -f "$BUCKET_INFO"
  for name in S3_ENDPOINT S3_BUCKET S3_ACCESS_KEY S3_SECRET_KEY S3_CA_FILE ETCD_REGION; do
    [[ -z ${!name:-} ]] || printf '%s=%q\n' "$name" "${!name}"
  done >"$BUCKET_INFO"
)
# Server-side, since the other apply would keep a second copy of the values in an annotation.
kubectl -n "$NAMESPACE" create secret generic "$CREDENTIALS_NAME" --from-file="$files" --dry-run=client -o yaml |
  kubectl apply --server-side --force-conflicts -f -

kubectl apply -f - <<YAML
apiVersion: backups.cozystack.io/v1alpha1
kind: BackupClass
metadata:
  name: $BACKUPCLASS_NAME
spec:
  strategies:
    - application:
        apiGroup: apps.cozystack.io
        kind: Etcd
      strategyRef:
        apiGroup: $STRATEGY_GROUP
        kind: Etcd
        name: $STRATEGY_NAME
      parameters:
        endpoint: "$S3_ENDPOINT"
        bucket: "$S3_BUCKET"
        region: "$ETCD_REGION"
        credentialsSecretName: "$CREDENTIALS_NAME"
YAML
say "snapshots will go to s3://$S3_BUCKET/$NAMESPACE/$ETCD_NAME/ on $S3_ENDPOINT"
