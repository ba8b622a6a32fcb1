"""Submits jobs as other users would: of several users, at random times, so many that the cluster is as busy as requested.

usage: load.py SPEED SEED LOAD BACKLOG HOURS ACCOUNTS   (`dev-cluster load` calls it; HOURS 0: until it is stopped)

The same seed gives the same jobs. Each is a `sleep` of its run time divided by the speed of the cluster's clock.
"""
import pwd
import os
import random
import re
import subprocess
import sys
import time

ACCOUNTS = {"astro": 50, "bio": 30, "chem": 20}  # and their shares
# Users that exist on every Debian; root submits as each of them, other users only as themselves.
USERS = ["daemon", "bin", "games", "man", "lp", "mail", "news", "uucp"]
LIMITS = [(60, 30), (180, 30), (720, 30), (1440, 10)]  # minutes, and their weights
COUNTS = [(1, 50), (2, 25), (4, 20), (8, 5)]
NICE = [0, 0, 300, 600, 1000]
MOST_RETRIES = 5


def pick(rng, weighted):
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


def minutes(text):
    """Returns the minutes of `7-00:00:00`, `3:00:00` or `30:00`; None is no limit."""
    if text == "infinite":
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    while len(parts) < 3:
        parts.insert(0, 0)
    return int(days or 0) * 1440 + parts[0] * 60 + parts[1]


def cluster():
    """Returns what each GPU type offers: nodes, GPUs and CPUs and MB of one node, and partitions with their limits."""
    text = subprocess.run(["sinfo", "-h", "-N", "-o", "%P|%l|%G|%N|%c|%m"], capture_output=True, text=True, check=True).stdout
    types = {}
    for line in text.splitlines():
        partition, limit, gres, node, cpus, memory = line.split("|")
        for name, count in re.findall(r"gpu:(?:([^:,()]+):)?(\d+)", gres):
            kind = types.setdefault(name, {"nodes": set(), "gpus": int(count), "cpus": int(cpus), "memory": int(memory), "partitions": {}})
            kind["nodes"].add(node)
            kind["partitions"][partition.rstrip("*")] = (minutes(limit), partition.endswith("*"))
    if not types:
        sys.exit("dev-cluster: load: this cluster has no GPUs")
    return types


def people(rng):
    """Returns each user with an account, how much of a limit its jobs use, and how often it submits."""
    names = [name for name in USERS if os.geteuid() == 0 and known(name)] or [pwd.getpwuid(os.geteuid()).pw_name]
    accounts = list(ACCOUNTS)
    return [(name, accounts[place % len(accounts)], rng.uniform(0.5, 1.5), rng.uniform(0.3, 3)) for place, name in enumerate(names)]


def known(name):
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def draw(rng, users, types, popularity):
    """Returns one job: user, options of sbatch, minutes that it runs, GPU-minutes that this takes."""
    user, account, habit, _ = rng.choices(users, [user[3] for user in users])[0]
    name = pick(rng, [(name, popularity[name] * kind["gpus"] * len(kind["nodes"])) for name, kind in types.items()])
    kind = types[name]
    count = min(pick(rng, COUNTS), kind["gpus"] * len(kind["nodes"]))
    nodes = -(-count // kind["gpus"])
    per_node = min(count, kind["gpus"])
    limit = pick(rng, LIMITS)
    open_to = [(part, default) for part, (most, default) in kind["partitions"].items() if most is None or most >= limit]
    partition = rng.choice([part for part, default in open_to for _ in range(3 if default else 1)] or list(kind["partitions"]))
    share = pick(rng, [(0.1, 50), (0.5, 30), (1, 17), (1.5, 3)])
    cpus = max(1, min(kind["cpus"], int(kind["cpus"] / kind["gpus"] * per_node * share)))
    memory = max(100, int(kind["memory"] / kind["cpus"] * cpus * 0.9))
    # Some end early, as if they had failed, and some run to their limit.
    ends = rng.random()
    used = rng.uniform(0.01, 0.1) if ends < 0.2 else min(1, rng.uniform(0.1, 0.9) * habit) if ends < 0.85 else 1.0
    tasks = rng.randint(2, 4) if rng.random() < 0.03 else 1
    options = [f"--account={account}", f"--partition={partition}", f"--time={limit}", f"--nice={rng.choice(NICE)}",
               f"--nodes={nodes}", "--ntasks-per-node=1", f"--cpus-per-task={cpus}", f"--mem={memory}",
               f"--gres=gpu:{name + ':' if name else ''}{per_node}"]
    if tasks > 1:
        options.append(f"--array=1-{tasks}%{rng.randint(1, 2)}")
    runs = max(1, limit * used)
    return user, options, runs, runs * nodes * per_node * tasks


def submit(user, options, runs, speed):
    """Submits as the user; retries if sbatch fails, and prints the reason of the last failure."""
    command = ["sbatch", "--parsable", "-J", "load", "-D", "/tmp", "-o", "/dev/null", *options, "--wrap", f"sleep {runs * 60 / speed:.3f}"]
    as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    for attempt in range(MOST_RETRIES):
        answer = subprocess.run(command, capture_output=True, text=True, check=False, **as_user)
        if answer.returncode == 0:
            return
        time.sleep(0.2 * (attempt + 1))
    print(f"dev-cluster: load: {' '.join(options)}: {answer.stderr.strip()}", file=sys.stderr)


def open_accounts(users):
    """Gives every user an account in the database."""
    lines = [f"add account {name} fairshare={share}" for name, share in ACCOUNTS.items()]
    lines += [f"add user {user} account={account}" for user, account, _, _ in users]
    me = pwd.getpwuid(os.geteuid()).pw_name
    lines += [f"add user {me} account={name}" for name in ACCOUNTS]
    subprocess.run(["sacctmgr", "--immediate"], input="\n".join([*lines, "quit\n"]), text=True, capture_output=True, check=False)


def main():
    speed, seed, load, backlog, hours, accounts = sys.argv[1:]
    speed, load, hours = float(speed), float(load), float(hours)
    rng = random.Random(int(seed))
    types, users = cluster(), people(rng)
    popularity = {name: rng.uniform(0.85, 1.15) for name in types}
    if accounts == "yes":
        open_accounts(users)
    # The mean gap follows from the mean work of a job and the size of the cluster.
    sample = random.Random(0)
    mean = sum(draw(sample, users, types, popularity)[3] for _ in range(4000)) / 4000
    gpus = sum(kind["gpus"] * len(kind["nodes"]) for kind in types.values())
    gap = mean * 60 / (gpus * load)
    print(f"dev-cluster: load: {len(users)} users, a job every {gap:.0f} s of the cluster's clock", file=sys.stderr, flush=True)
    for _ in range(int(backlog)):
        submit(*draw(rng, users, types, popularity)[:3], speed)
    began = due = time.monotonic()
    while not hours or due - began < hours * 3600 / speed:
        time.sleep(max(0, due - time.monotonic()))
        submit(*draw(rng, users, types, popularity)[:3], speed)
        due += rng.expovariate(1 / gap) / speed


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
