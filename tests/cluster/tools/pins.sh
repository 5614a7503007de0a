# Which programs the test bed is made of, and where each one comes from. Meant to be sourced after ../lib.sh.
# A program lives in $CACHE/tools/<module>-<hash of the pins>/, so a changed pin is another folder and gets built.
TOOLS=$BED/tools

K8S_VERSION=$(sed -nE 's#^\tk8s\.io/kubernetes (v[^ ]+).*#\1#p' "$TOOLS/k8s/go.mod")
ETCD_VERSIONS=(3.4.23 3.5.35 3.6.16 3.7.3)
CARGO_DENY=0.20.2
# Debian's builds: etcd 3.4 cannot be built as a Go module, and busybox is only there for helper Pods.
DEBIAN_ETCD34=3.4.23
# What containers and a node need from the distribution.
NODE_PACKAGES=(containerd runc containernetworking-plugins iptables nftables conntrack iproute2 kmod openssl procps util-linux)

# program NAME -> "module package [group...]"; the name of an etcd program carries its minor version.
declare -A PROGRAMS=(
  [leash]="leash . control-plane process"
  [stand-in-runtime]="stand-in-runtime . control-plane process"
  [kube-apiserver]="k8s k8s.io/kubernetes/cmd/kube-apiserver control-plane"
  [kube-controller-manager]="k8s k8s.io/kubernetes/cmd/kube-controller-manager control-plane"
  [kubectl]="k8s k8s.io/kubernetes/cmd/kubectl control-plane"
  [kube-scheduler]="k8s k8s.io/kubernetes/cmd/kube-scheduler node"
  [kubelet]="k8s k8s.io/kubernetes/cmd/kubelet node"
  [kube-proxy]="k8s k8s.io/kubernetes/cmd/kube-proxy node"
  [etcd-3.4]="etcd34 debian process node"
  [etcdctl-3.4]="etcd34 debian process node"
  [etcd-3.5]="etcd35 go.etcd.io/etcd/server/v3 process node"
  [etcdctl-3.5]="etcd35 go.etcd.io/etcd/etcdctl/v3 process node"
  [etcdutl-3.5]="etcd35 go.etcd.io/etcd/etcdutl/v3 process node"
  [etcd-3.6]="etcd36 go.etcd.io/etcd/server/v3 control-plane process node"
  [etcdctl-3.6]="etcd36 go.etcd.io/etcd/etcdctl/v3 process node"
  [etcdutl-3.6]="etcd36 go.etcd.io/etcd/etcdutl/v3 process node"
  [etcd-3.7]="etcd37 go.etcd.io/etcd/server/v3 process node"
  [etcdctl-3.7]="etcd37 go.etcd.io/etcd/etcdctl/v3 process node"
  [etcdutl-3.7]="etcd37 go.etcd.io/etcd/etcdutl/v3 process node"
  [weed]="seaweedfs github.com/seaweedfs/seaweedfs/weed process node"
  [coredns]="coredns . node"
  [local-path-provisioner]="local-path-provisioner github.com/rancher/local-path-provisioner node"
  [pause]="pause c node"
  [ociarchive]="ociarchive . node"
  [busybox]="busybox debian node"
  [cargo-deny]="cargo-deny cargo deny"
  [helm]="helm helm.sh/helm/v3/cmd/helm helm"
)

# pin MODULE: what decides the module's binaries, hashed; everything in its folder, or the Debian version.
pin() {
  case $1 in
    etcd34) printf 'debian %s' "$DEBIAN_ETCD34" ;;
    busybox) printf 'debian busybox' ;;
    cargo-deny) printf 'cargo-deny %s' "$CARGO_DENY" ;;
    *) (cd "$TOOLS/$1" && sha256sum -- *) ;;
  esac | sha256sum | cut -c1-12
}

# location NAME: where the program is, or will be after a build.
location() {
  local module rest
  read -r module rest <<<"${PROGRAMS[$1]:-}"
  [[ -n $module ]] || die "no program is called '$1'; there are: ${!PROGRAMS[*]}"
  echo "$CACHE/tools/$module-$(pin "$module")/$1"
}
