# shellcheck shell=bash
# Installs what the cluster needs, without starting or enabling any service of the host.

readonly POLICY=/usr/sbin/policy-rc.d

# Prints the programs that are needed and missing.
missing_programs() {
  local program
  local -a wanted=(slurmctld slurmd srun sinfo flock setsid)
  [[ $AUTH == none ]] || wanted+=(munged munge)
  [[ $ACCOUNTING != yes ]] || wanted+=(slurmdbd sacctmgr mariadbd mariadb-install-db mariadb-admin)
  for program in "${wanted[@]}"; do
    command -v "$program" >/dev/null || printf '%s\n' "$program"
  done
}

refuse_when_programs_miss() {
  local missing option=''
  missing=$(missing_programs)
  [[ $ACCOUNTING != yes ]] || option=' --accounting'
  [[ -z $missing ]] || fail "not installed: ${missing//$'\n'/, }; as root: dev-cluster install$option"
}

install_packages() {
  local missing
  local -a packages=(slurmctld slurmd slurm-client munge util-linux)
  [[ $ACCOUNTING != yes ]] || packages+=(slurmdbd mariadb-server)
  missing=$(missing_programs)
  [[ -n $missing ]] || return 0
  missing=${missing//$'\n'/, }
  command -v apt-get >/dev/null ||
    fail "not installed: $missing; there is no apt-get here: install Slurm 22.05 or newer and munge with your system's tool"
  ((EUID == 0)) || fail "not installed: $missing; as root: apt-get install --no-install-recommends ${packages[*]}"
  forbid_services
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -q --no-install-recommends "${packages[@]}" >&2 ||
    { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends "${packages[@]}" >&2; } ||
    fail "apt-get could not install ${packages[*]}"
  allow_services
  missing=$(missing_programs)
  [[ -z $missing ]] || fail "still missing after apt-get: ${missing//$'\n'/, }"
}

# Debian's packages start their services unless policy-rc.d says 101, and enable them unless they are masked.
forbid_services() {
  trap allow_services EXIT
  [[ ! -e $POLICY ]] || mv "$POLICY" "$POLICY.dev-cluster"
  printf '#!/bin/sh\nexit 101\n' >"$POLICY"
  chmod 755 "$POLICY"
}

allow_services() {
  trap - EXIT
  rm -f "$POLICY"
  [[ ! -e $POLICY.dev-cluster ]] || mv "$POLICY.dev-cluster" "$POLICY"
}
