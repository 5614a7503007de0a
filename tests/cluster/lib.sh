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

# packages NAME...: Debian packages; installed when that is possible, else named in one message.
packages() {
  local missing=() p
  for p in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] || missing+=("$p")
  done
  (( ${#missing[@]} )) || return 0
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    die "these packages are missing: ${missing[*]}; as root: apt-get install --no-install-recommends ${missing[*]}"
  fi
  echo "installing ${missing[*]}"
  apt_update
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

apt_updated=
apt_update() {
  [[ -z $apt_updated ]] || return 0
  apt-get update -qq </dev/null
  apt_updated=1
}
