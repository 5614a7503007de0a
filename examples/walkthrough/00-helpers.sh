#!/usr/bin/env bash
# Settings and functions that all steps of the walkthrough share. Sourced by them, not run.
# Every setting can be given in the environment; README.md beside this file lists them.
set -euo pipefail

: "${NAMESPACE:=tenant-root}"
: "${ETCD_NAME:=etcd}"
: "${BUCKET_NAME:=etcd-backups}"
: "${BACKUPCLASS_NAME:=etcd-default}"
: "${STRATEGY_NAME:=etcd-strategy-default}"
: "${BACKUPJOB_NAME:=etcd-backup-job}"
: "${RESTOREJOB_INPLACE_NAME:=etcd-restore-inplace}"
# SeaweedFS tells no region, and S3 clients sign with one.
: "${ETCD_REGION:=us-east-1}"
: "${ETCD_REPLICAS:=3}"
: "${ETCD_VERSION:=3.6.11}"
: "${ETCD_SIZE:=1Gi}"
: "${WAIT_SECONDS:=900}"

# The group of the strategy: strategy.etcd-warden.io where upstream's backup controllers run too.
: "${STRATEGY_GROUP:=strategy.backups.cozystack.io}"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by the steps
{
  CREDENTIALS_NAME=${ETCD_NAME}-etcd-backup-creds
  SENTINEL_KEY=/etcd-warden/walkthrough
  SENTINEL_VALUE=written-before-the-backup
  CHANGED_VALUE=written-after-the-backup
  : "${BUCKET_INFO:=$HERE/.bucket-info.env}"
}

# Colour for people only: pipes and logs get plain text.
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' PLAIN=$'\e[0m'
else
  BOLD='' DIM='' RED='' PLAIN=''
fi

say() { printf '%s\n' "$*"; }
step() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$PLAIN"; }
fail() { printf '%serror: %s%s\n' "$RED" "$*" "$PLAIN" >&2; exit 1; }

# need PROGRAM...: fails when one is not installed.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || fail "$program is needed and not installed"
  done
}

# served GROUP/VERSION PLURAL: whether the API server serves the kind.
served() {
  local list
  list=$(kubectl get --raw "/apis/$1" 2>/dev/null) || return 1
  grep -q "\"name\":\"$2\"" <<<"${list//\": \"/\":\"}"
}

# value KIND NAME JSONPATH: a field of an object in $NAMESPACE; empty where the field or the object is absent.
value() { kubectl -n "$NAMESPACE" get "$1" "$2" --ignore-not-found -o "jsonpath=$3"; }

# await SECONDS WHAT COMMAND...: repeats the command until it succeeds.
await() {
  local seconds=$1 what=$2 start=$SECONDS
  shift 2
  until "$@"; do
    (( SECONDS - start < seconds )) || fail "waited $seconds s for $what in vain"
    sleep 1
  done
}

# progress KIND NAME: one line that says where a job is.
progress() {
  value "$1" "$2" '{.status.phase}{"|"}{.status.step}{"|"}{.status.conditions[?(@.type=="Ready")].reason}{"|"}{.status.conditions[?(@.type=="Ready")].message}' |
    tr '\n' ' ' | awk -F'|' '{
      if ($1 == "") $1 = "(not started)"
      line = $1
      if ($2 != "") line = line ", " $2
      if ($3 != "") line = line ": " $3
      if ($4 != "") line = line " - " $4
      print line
    }'
}

# await_job KIND NAME: follows a BackupJob or RestoreJob to Succeeded, telling each change with the seconds it took.
await_job() {
  local kind=$1 name=$2 start=$SECONDS seen='' now phase
  while true; do
    now=$(progress "$kind" "$name")
    if [[ $now != "$seen" ]]; then
      printf '  %s%4d s%s  %s\n' "$DIM" $((SECONDS - start)) "$PLAIN" "$now"
      seen=$now
    fi
    phase=$(value "$kind" "$name" '{.status.phase}')
    case $phase in
      Succeeded) return 0 ;;
      Failed) fail "$kind $name failed: $(value "$kind" "$name" '{.status.message}')" ;;
    esac
    (( SECONDS - start < WAIT_SECONDS )) ||
      fail "$kind $name is not done after $WAIT_SECONDS s; look at: kubectl -n $NAMESPACE describe $kind $name"
    sleep 1
  done
}

available() { [[ $(value etcdclusters.etcd-operator.cozystack.io etcd '{.status.conditions[?(@.type=="Available")].status}') == True ]]; }

# in_etcd ARGS...: etcdctl in a ready member's own Pod, so that nothing but kubectl is needed here.
in_etcd() {
  local pod tls=()
  pod=$(kubectl -n "$NAMESPACE" get pods -l etcd-operator.cozystack.io/cluster=etcd,etcd-operator.cozystack.io/role=voter \
    -o 'jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}' | head -n 1)
  [[ -n $pod ]] || { echo "no member of etcd is running in namespace $NAMESPACE" >&2; return 1; }
  if [[ -n $(value etcdclusters.etcd-operator.cozystack.io etcd '{.spec.tls.client}') ]]; then
    tls=(--endpoints=https://localhost:2379 --cacert=/etc/etcd/tls/client/ca.crt
      --cert=/etc/etcd/tls/client/tls.crt --key=/etc/etcd/tls/client/tls.key)
  fi
  kubectl -n "$NAMESPACE" exec "$pod" -c etcd -- etcdctl "${tls[@]}" "$@"
}

# read_sentinel: the sentinel's value as etcd has it now.
read_sentinel() { in_etcd get --print-value-only "$SENTINEL_KEY"; }

# write_sentinel VALUE: a cluster that has just formed may need a moment until it takes writes.
write_sentinel() { await 60 "etcd to take a write" in_etcd put "$SENTINEL_KEY" "$1"; }

# sentinel_is VALUE
sentinel_is() { [[ $(read_sentinel) == "$1" ]]; }

# replace KIND NAME: removes an object of an earlier run, so that the step can be run again.
replace() { kubectl -n "$NAMESPACE" delete "$1" "$2" --ignore-not-found --wait --timeout=120s; }
