#!/bin/bash
# SPDX-License-Identifier: MIT
# Minimal roots of Debian and Ubuntu for scripts that show what a bare machine does: sourced, by root. A
# script that sources this has say() and fail().

# distribution_of SUITE: its name, or nothing for a suite that driftd is not packaged for.
distribution_of() {
  case $1 in
    bookworm | trixie) echo debian ;;
    noble) echo ubuntu ;;
  esac
}

# The mirror of the first archive of the host's apt, when host and suite are the same distribution.
host_mirror() {
  grep -qx "ID=$1" /etc/os-release || return 0
  # shellcheck disable=SC2016 # apt's own variable
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n '/^http/{p;q}'
}

# make_clean_root SUITE FOLDER [PACKAGES]: debootstrap's minimal variant and the packages (comma-separated).
# Packages come from DRIFTD_MIRROR, from the mirror that this machine's apt uses for the same distribution,
# or from debootstrap's default. DRIFTD_ROOT_CACHE=FOLDER: taken from there, where one was kept before.
make_clean_root() {
  local suite=$1 root=$2 packages=${3:-} distribution mirror
  local kept=${DRIFTD_ROOT_CACHE:+$DRIFTD_ROOT_CACHE/$suite${packages:+-$packages}.tar}
  local scripts=/usr/share/debootstrap/scripts script=/usr/share/debootstrap/scripts/$suite
  distribution=$(distribution_of "$suite")
  mirror=${DRIFTD_MIRROR:-$(host_mirror "$distribution")}
  mkdir -p "$root"
  # What mktemp makes is root's alone, and stays so: users in there could open nothing.
  chmod 755 "$root"
  if [ -n "$kept" ] && [ -s "$kept" ]; then
    say "taking a minimal $suite from $kept"
    tar -C "$root" -xpf "$kept" --no-overwrite-dir
    return
  fi
  local options=(--variant=minbase ${packages:+"--include=$packages"})
  if [ "$distribution" = ubuntu ]; then
    options+=("--components=main,universe")
    # A debootstrap older than the suite: all of Ubuntu's suites share this script.
    [ -e "$script" ] || script=$scripts/gutsy
  fi
  say "making a minimal $suite in $root"
  timeout 900 debootstrap "${options[@]}" "$suite" "$root" "$mirror" "$script" \
    >"$root/debootstrap.out" 2>&1 || {
    tail -n 5 "$root/debootstrap.out" >&2
    fail "debootstrap could not make $suite from ${mirror:-its default mirror}; DRIFTD_MIRROR names" \
      "another one (on Debian, noble also needs the package ubuntu-keyring)"
  }
  # apt inside goes the way the host's goes: proxy, time checks and name resolution.
  apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-)' >"$root/etc/apt/apt.conf.d/90host" ||
    true
  cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -n "$kept" ]; then
    mkdir -p "$DRIFTD_ROOT_CACHE"
    tar -C "$root" -cpf "$kept.new" . && mv "$kept.new" "$kept"
  fi
}

# in_root ROOT COMMAND...: in a clean environment.
in_root() {
  local root=$1
  shift
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
    DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

# in_own_root NAME SCRIPT [ARGUMENT...]: the caller goes on in another run of SCRIPT, which has mounts and
# processes of its own, gone with it, and $root, a new folder that the first run removes.
in_own_root() {
  root=${DRIFTD_FRESH_ROOT:-}
  [ -z "$root" ] || return 0
  root=$(mktemp -d "${DRIFTD_FRESH_DIR:-/var/tmp}/driftd-$1-XXXXXX")
  trap 'rm -rf --one-file-system "$root" || { sleep 2; rm -rf --one-file-system "$root"; }' EXIT
  DRIFTD_FRESH_ROOT=$root unshare --mount --propagation private --pid --fork --kill-child --mount-proc "${@:2}" &
  inner=$!
  trap 'kill -KILL "$inner"; exit 130' INT TERM HUP  # unshare ignores the others
  wait "$inner"
  exit
}

# boot_root ROOT REPORT COMMAND: boots it with its systemd as process 1, which runs COMMAND and writes what that
# prints to ROOT/work/REPORT. Ends with COMMAND, by its exit code, or with 133 where that lets it boot anew.
boot_root() {
  local root=$1 wanted=$1/etc/systemd/system/multi-user.target.wants
  mkdir -p "$wanted"
  cat >"$root/etc/systemd/system/probe.service" <<TEXT
[Unit]
FailureAction=exit
[Service]
Type=oneshot
SuccessExitStatus=SIGTERM
StandardOutput=append:/work/$2
StandardError=inherit
ExecStart=/bin/bash -c '$3; systemctl --no-block exit \$?'
TEXT
  ln -sf ../probe.service "$wanted/"
  timeout --kill-after=20 "${DRIFTD_BOOT_LIMIT_S:-900}" systemd-nspawn -q -D "$root" --register=no --keep-unit --boot \
    --private-network --console=pipe </dev/null >"$root/console" 2>&1
}

# newer_packages ROOT PACKAGE...: from ROOT/work/packages into ROOT/work/newer, the same packages with a higher
# version, as an upgrade is to dpkg.
newer_packages() {
  local root=$1 package folder
  shift
  mkdir -p "$root/work/newer"
  for package in "$@"; do
    folder=$root/work/$package
    dpkg-deb -R "$root/work/packages/${package}"_*.deb "$folder"
    sed -i -E 's/^Version: .*/&+next1/; s/\(= ([^)]*)\)/(= \1+next1)/' "$folder/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$folder" "$root/work/newer/" >/dev/null
    rm -r "$folder"
  done
}
