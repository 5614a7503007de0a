# What the outer and the inner half of tests/cluster/node share. Meant to be sourced after lib.sh.
. "$BED/tools/pins.sh"
. "$BED/images"

CONTAINERD=/run/containerd/containerd.sock

# node_paths NAME: where things of this node are.
node_paths() {
  NAME=$1
  STATE=$RUN_ROOT/nodes/$NAME
  LOGS=$STATE/logs
  VETH=ew-$NAME
  CGROUP=etcd-warden-$NAME
  NODE=$NAME-node
}

# settings: the node's addresses; only after it was brought up.
settings() {
  [[ -f $STATE/env ]] || die "node $NAME is not up; start it with: tests/cluster/node -n $NAME up"
  . "$STATE/env"
  HOST_IP=10.$OCTET.0.1
  NODE_IP=10.$OCTET.0.2
  PODS=10.$OCTET.64.0/18
  SERVICES=10.$OCTET.128.0/17
  API_SERVICE_IP=10.$OCTET.128.1
  DNS_IP=10.$OCTET.128.10
}

# alive: the node was brought up whole, and its namespaces are still there.
alive() {
  [[ -f $STATE/up ]] && [[ $(readlink "/proc/$(cat "$STATE/anchor")/exe" 2>/dev/null) == */pause ]]
}

# inside CMD...: runs a command in the node's namespaces.
inside() { nsenter -t "$(cat "$STATE/anchor")" -m -n -p -- "$@"; }

# cgroup_folders: the node's own cgroup, in every hierarchy of this machine.
cgroup_folders() {
  local controller
  if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then echo "/sys/fs/cgroup/$CGROUP"; return; fi
  for controller in cpu cpuacct cpuset memory devices freezer blkio pids systemd unified; do
    [[ ! -d /sys/fs/cgroup/$controller ]] || echo "/sys/fs/cgroup/$controller/$CGROUP"
  done
}
