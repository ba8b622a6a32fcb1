# shellcheck shell=bash
# Installs the packages of the cluster, without starting or enabling any service of the host.

readonly POLICY=/usr/sbin/policy-rc.d

# Prints the required programs that are missing.
missing_programs() {
  local program
  local -a wanted=(slurmctld slurmd srun sinfo flock setsid)
  if is_rooted; then return; fi
  [[ $AUTH == none ]] || wanted+=(munged munge)
  [[ $SPEED == 1 ]] || wanted+=(faketime python3)
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
  local missing enabled
  local -a packages=(slurmctld slurmd slurm-client munge util-linux faketime python3)
  [[ $ACCOUNTING != yes ]] || packages+=(slurmdbd mariadb-server)
  missing=$(missing_programs)
  [[ -n $missing ]] || return 0
  missing=${missing//$'\n'/, }
  command -v apt-get >/dev/null ||
    fail "not installed: $missing; there is no apt-get here: install Slurm and munge with your system's tool"
  ((EUID == 0)) || fail "not installed: $missing; as root: apt-get install --no-install-recommends ${packages[*]}"
  enabled=$(enabled_services)
  forbid_services
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -q --no-install-recommends "${packages[@]}" >&2 ||
    { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends "${packages[@]}" >&2; } ||
    fail "apt-get could not install ${packages[*]}"
  allow_services
  disable_services_but "$enabled"
  missing=$(missing_programs)
  [[ -z $missing ]] || fail "still missing after apt-get: ${missing//$'\n'/, }"
}

# Debian's packages start their services unless policy-rc.d says 101.
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

# Prints the services of the packages that the host starts at boot.
enabled_services() {
  local service
  for service in munge slurmctld slurmd slurmdbd mariadb; do
    [[ -L /etc/systemd/system/multi-user.target.wants/$service.service ]] ||
      compgen -G "/etc/rc2.d/S[0-9][0-9]$service" >/dev/null || continue
    printf '%s\n' "$service"
  done
}

# Disables the services that the packages enabled; the services in $1 were enabled before and stay enabled.
disable_services_but() {
  local service
  for service in $(comm -13 <(sort <<<"$1") <(enabled_services | sort)); do
    if command -v systemctl >/dev/null; then systemctl --quiet disable "$service" >&2 || true; fi
    if command -v update-rc.d >/dev/null; then update-rc.d "$service" disable >&2 || true; fi
  done
}
