# Shared by the scripts of the test bed: where things are, and how to say what goes wrong. Meant to be sourced.
BED=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${ETCD_WARDEN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/etcd-warden}   # built tools and images, kept between runs
RUN_ROOT=${ETCD_WARDEN_RUN:-${TMPDIR:-/tmp}/etcd-warden-$(id -u)}         # state of what is running now
export PATH=$PATH:/usr/sbin:/sbin

die() { echo "error: $*" >&2; exit 1; }

# with_lock FILE CMD...: one at a time, over all clones and users of this cache.
with_lock() {
  local file=$1 fd; shift
  mkdir -p "$(dirname "$file")"
  exec {fd}>"$file"
  flock -n "$fd" || { echo "waiting for another run that holds $file" >&2; flock "$fd"; }
  "$@" {fd}>&-
  exec {fd}>&-
}
