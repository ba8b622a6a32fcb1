# shellcheck shell=bash
# Another version of Slurm: a small Debian with it, in which the cluster's daemons, Slurm's commands and jobs run.
#
# It is made once for all clusters. Each cluster has a process, the daemon `root`, with a mount namespace in which that
# Debian is `/` and contains the directories of this machine. Short scripts in DIR/bin run Slurm's commands there.
# shellcheck disable=SC2153 # dev-cluster sets the names in capitals

# The file ROOT_MARK marks a root and has the version of its Slurm, so that a program can find out that it runs in a root.
readonly ROOT_MARKER=HSCHED_DEV_CLUSTER_ROOT ROOT_MARK=etc/hsched-slurm-root NO_ROOT=3 VERSIONS='20.11, 22.05, 24.11, 26.05'

readonly ROOT_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
readonly -a MIRRORS=(http://deb.debian.org/debian http://archive.debian.org/debian)
readonly -a USER_PROGRAMS=(sbatch squeue sinfo scancel scontrol srun salloc sacct sacctmgr sprio sshare sdiag sreport
  sstat sattach sbcast strigger scrontab)
readonly -a OTHER_PROGRAMS=(slurmctld slurmd slurmdbd munged munge faketime mariadbd mariadb mariadb-admin
  mariadb-install-db)

is_rooted() { [[ $SLURM != system ]]; }

# Ends the program, because a requirement of roots is missing.
lack() { say "Slurm $SLURM: $*"; exit "$NO_ROOT"; }

roots_directory() { printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/hsched"; }

# Prints the name of the Debian release that has version $1 of Slurm; fails if there is none.
suite_of() {
  case $1 in
    20.11) echo bullseye ;;
    22.05) echo bookworm ;;
    24.11) echo trixie ;;
    26.05) echo forky ;;
    *) return 1 ;;
  esac
}

# Ensures that there is a root of the requested version, and prints a message if the archive had another version.
require_root() {
  is_rooted || return 0
  ROOT=$(roots_directory)/slurm-$SLURM
  ((EUID == 0)) || lack 'needs root: it runs in a Debian of its own'
  unshare --mount --propagation slave true 2>/dev/null ||
    lack 'no mount namespace can be made here (a container needs --privileged)'
  [[ -e $ROOT/$ROOT_MARK ]] || make_root
  [[ $(root_version) == "$SLURM".* ]] || say "this is Slurm $(root_version), not $SLURM: Debian's $(suite_of "$SLURM") has moved on"
}

root_version() { cat "$ROOT/$ROOT_MARK"; }

# Sets VERSION to the version of this cluster's Slurm, such as 22.05.8.
find_version() {
  if is_rooted; then VERSION=$(root_version); else VERSION=$(slurmctld -V) VERSION=${VERSION##* }; fi
}

# Succeeds if the cluster's Slurm is version $1 or later.
slurm_is_since() { printf '%s\n' "$1" "$VERSION" | sort -V -C; }

make_root() {
  local suite packages mirror log=$ROOT.log new=$ROOT.new
  suite=$(suite_of "$SLURM")
  packages=slurmctld,slurmd,slurm-client,slurmdbd,munge,mariadb-server,libfaketime,faketime,python3,procps,mount,tzdata
  # The torch of 20.11's Debian is too old for hsched's training package.
  [[ $SLURM == 20.11 ]] || packages+=,python3-torch
  command -v mmdebstrap >/dev/null || lack 'mmdebstrap is missing: apt-get install mmdebstrap debian-archive-keyring'
  ask_for_root "$suite"
  mkdir -p "$(dirname "$ROOT")"
  exec 8>>"$ROOT.lock"
  flock 8
  if [[ -e $ROOT/$ROOT_MARK ]]; then return; fi
  for mirror in "${MIRRORS[@]}"; do
    say "making a root of Debian $suite from $mirror"
    rm -rf --one-file-system "$new"
    # A mirror of the archive may be older than its signature allows.
    if mmdebstrap --variant=apt --include="$packages" --aptopt='Acquire::Check-Valid-Until "false"' \
      --customize-hook="$HERE/lib/finish-root \"\$1\" $suite $ROOT_MARK" "$suite" "$new" "$mirror" >"$log" 2>&1; then
      mv "$new" "$ROOT"
      rm -f "$log" "$ROOT.lock"
      exec 8>&-
      say "made: Slurm $(root_version), $(du -sh "$ROOT" | cut -f 1) in $ROOT"
      return
    fi
    grep '^E:' "$log" | head -n 3 >&2 || true
  done
  rm -rf --one-file-system "$new" "$ROOT.lock"
  lack "no root could be made from Debian $suite; all that was said: $log"
}

# Continues only after a confirmation on the terminal or by an option.
ask_for_root() {
  local size=1.6 answer=''
  [[ $SLURM != 20.11 ]] || size=0.6
  say "Slurm $SLURM needs a root of Debian $1: $size GB in $ROOT, downloaded once, in one or two minutes"
  [[ $YES != yes ]] || return 0
  [[ -t 0 ]] || lack "it is not made without a yes: dev-cluster install --slurm $SLURM --yes"
  read -r -p 'make it? [y/N] ' answer
  [[ $answer == [yY]* ]] || lack 'it was not made'
}

# Removes the root of one version, or all.
remove_roots() {
  local version root
  for version in ${VERSIONS//,/}; do
    root=$(roots_directory)/slurm-$version
    [[ -e $root || -e $root.new ]] || continue
    if is_rooted && [[ $version != "$SLURM" ]]; then continue; fi
    if grep -qlzxF -- "$ROOT_MARKER=$root" /proc/[0-9]*/environ 2>/dev/null; then fail "a cluster uses $root: down it first"; fi
    rm -rf --one-file-system "$root" "$root".{new,log,lock}
    say "removed: $root"
  done
}

# Writes the scripts that run programs in the root; the scripts for all users are in DIR/bin.
write_wrappers() {
  local program
  is_rooted || return 0
  mkdir -p "$DIR"/{bin,sbin}
  cat >"$DIR/etc/enter" <<END
#!/bin/sh
# Runs a command in the root of this cluster's Slurm, with the programs of the root before all others.
if [ -e /$ROOT_MARK ]; then exec "\$@"; fi
read -r pid start <$DIR/run/root.pid && [ -e "/proc/\$pid/root/$ROOT_MARK" ] || { echo "$DIR: no cluster is up" >&2; exit 1; }
exec nsenter --target "\$pid" --mount -- /bin/sh -c 'cd "\$1" 2>/dev/null || cd /; shift; PATH=$ROOT_PATH:\$PATH exec "\$@"' sh "\$PWD" "\$@"
END
  chmod 755 "$DIR/etc/enter"
  for program in "${USER_PROGRAMS[@]}"; do write_wrapper "bin/$program" "$program"; done
  for program in "${OTHER_PROGRAMS[@]}"; do write_wrapper "sbin/$program" "$program"; done
}

write_wrapper() { # FILE PROGRAM
  local path
  for path in "/usr/bin/$2" "/usr/sbin/$2"; do
    [[ -e $ROOT$path ]] || continue
    printf '#!/bin/sh\nexec %s/etc/enter %s "$@"\n' "$DIR" "$path" >"$DIR/$1"
    chmod 755 "$DIR/$1"
  done
}

# Lets this script find the programs of the cluster's root, and run others there with IN_ROOT.
use_wrappers() {
  is_rooted || return 0
  IN_ROOT=("$DIR/etc/enter")
  PATH=$DIR/bin:$DIR/sbin:$ROOT_PATH:$PATH
}

# Starts the process with the mount namespace of the root.
start_root() {
  private_hosts >"$DIR/etc/hosts"
  start_daemon root env "$ROOT_MARKER=$ROOT" unshare --mount --propagation slave \
    "$HERE/lib/enter-root" "$ROOT" "$DIR/etc/hosts"
  wait_for root_is_entered root
}

root_is_entered() { [[ -e /proc/$(daemon_pid root || true)/root/$ROOT_MARK ]]; }
