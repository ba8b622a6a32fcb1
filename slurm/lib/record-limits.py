"""Submits to a running cluster with limits, and records the queue before each submission and its outcome.

usage: record-limits.py limits SEED                         (sets random limits, before others submit)
       record-limits.py record CLUSTER_DIR OUT_DIR COUNT SEED HSCHED

`slurm/measure-limits` calls it, as root, because it submits as three users. OUT_DIR has the form that the bench
`queue_limits` reads: site.json, snapshots.tar.gz and submissions.jsonl. All times are the cluster's.
"""
import calendar
import json
import os
import pwd
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import typing

from cluster_clock import Clock

# The users of the recorded submissions, and their accounts.
USERS = {"proxy": ["astro", "bio"], "backup": ["bio", "chem"], "list": ["astro", "chem"]}
COUNTS = [(1, 45), (2, 25), (4, 24), (8, 6)]
MINUTES = [(60, 3), (180, 3), (480, 3), (1200, 1)]
GAP = 700  # seconds between submissions, on average
# A single job within these bounds exceeds no drawn limit.
MOST_GPU_MINUTES = 3600
MOST_SHORT_GPUS = 4
# Two submissions that a limit never allows: more GPU-minutes than chem may have, and more GPUs than pshort
# allows; the key is the number of submissions before them.
NEVER = {9: ("backup", "chem", "gpu", "v100", 8, 720), 29: ("proxy", "bio", "short", "v100", 8, 60)}
MOST_WAIT = 30 * 3600  # how long jobs are watched after the last submission
LOOK = 1800
ASSOC = ("account,user,partition,parentname,share,grpjobs,grpsubmit,grptres,grptresmins,grptresrunmins,grpwall,maxjobs,"
         "maxsubmit,maxtres,maxtrespernode,maxtresmins,maxwall,qos,defaultqos")
QOS = ("name,priority,gracetime,preempt,preemptmode,flags,usagefactor,usagethreshold,grpjobs,grpsubmit,grptres,"
       "grptresmins,grptresrunmins,grpwall,maxjobspu,maxjobspa,maxsubmitpu,maxsubmitpa,maxtres,maxtrespernode,"
       "maxtrespu,maxtrespa,maxtresmins,maxwall,mintres")


def set_limits(seed):
    """Opens the accounts with their limits, and gives the partition `short` a QOS."""
    rng = random.Random(seed)
    jobs = rng.randint(2, 3)
    lines = [f"add account astro fairshare=50 GrpTRES=gres/gpu={rng.randint(9, 12)}",
             f"add account bio fairshare=30 GrpTRES=gres/gpu={rng.randint(9, 13)}",
             f"add account chem fairshare=20 GrpTRESRunMins=gres/gpu={100 * rng.randint(36, 50)}",
             "modify qos normal set MaxTRESPerUser=gres/gpu=8",
             f"add qos pshort MaxTRESPerUser=gres/gpu={MOST_SHORT_GPUS}"]
    for user, accounts in USERS.items():
        lines += [f"add user {user} account={account}{f' MaxJobs={jobs}' if user == 'list' else ''}" for account in accounts]
    text = "\n".join([*lines, "quit\n"])
    subprocess.run(["sacctmgr", "--immediate"], input=text, text=True, stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["scontrol", "update", "PartitionName=short", "QOS=pshort"], check=True)


def as_user(user):
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def ask(user, *command):
    """Returns the output of a command for a user."""
    return subprocess.run(command, capture_output=True, text=True, check=True, **as_user(user)).stdout


def site():
    """Returns the cluster as shown to an ordinary user."""
    user = next(iter(USERS))
    config = ask(user, "scontrol", "show", "config")
    return {"assoc": ask(user, "sacctmgr", "-nP", "show", "assoc", "tree", f"format={ASSOC}"), "assoc_format": f"format={ASSOC}",
            "qos": ask(user, "sacctmgr", "-nP", "show", "qos", f"format={QOS}"), "qos_format": f"format={QOS}",
            "partitions": ask(user, "scontrol", "show", "part", "-o"),
            "config": "\n".join(line for line in config.splitlines() if "/" not in line)}


class Request(typing.NamedTuple):
    """A submission, with `per_node` GPUs on each of its nodes."""

    user: str
    account: str
    partition: str
    kind: str
    gpus: int
    minutes: int
    per_node: int

    @property
    def nodes(self):
        return -(-self.gpus // self.per_node)

    @property
    def asks(self):
        gpus = [{"type": self.kind, "count": self.per_node}]
        return {"nodes": self.nodes, "gpus": gpus, "cpus": self.per_node * 4, "memory_mib": self.per_node * 8000}

    @property
    def options(self):
        return [f"--account={self.account}", f"--partition={self.partition}", f"--time={self.minutes}",
                f"--nodes={self.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={self.per_node * 4}",
                f"--mem={self.per_node * 8000}", f"--gres=gpu:{self.kind}:{self.per_node}"]

    @property
    def yaml(self):
        """The job file for which `when` lists this request alone: it needs half of its limit."""
        speed = 2e6 / (self.minutes * 30 * self.gpus)
        return f"""jobs:
  - name: q
    samples_per_epoch: 100000
    epochs: 20
    global_batch: 64
    model_size: 1MB
    min_gpus: {self.gpus}
    max_gpus: {self.gpus}
    account: {self.account}
    partition: {self.partition}
    cpus_per_gpu: 4
    time: {self.minutes}m
    throughput: {{{self.kind}: {speed:.6f}}}
    command: [python3, train.py]
"""


def pick(rng, weighted):
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


def draw(rng, types, number):
    """Returns the next request."""
    if number in NEVER:
        own = NEVER[number]
        return Request(*own, per_node=min(own[4], types[own[3]]["gpus"]))
    while True:
        user = rng.choice(list(USERS))
        account = rng.choice(USERS[user])
        kind = pick(rng, [(name, own["gpus"] * own["nodes"]) for name, own in types.items()])
        gpus, minutes = pick(rng, COUNTS), pick(rng, MINUTES)
        open_to = [name for name, most in types[kind]["partitions"].items() if minutes <= most]
        partition = rng.choice([name for name in open_to for _ in range(3 if name == "gpu" else 1)])
        if gpus * minutes <= MOST_GPU_MINUTES and (partition != "short" or gpus <= MOST_SHORT_GPUS):
            return Request(user, account, partition, kind, gpus, minutes, min(gpus, types[kind]["gpus"]))


def gpu_types():
    """Returns the GPU types of the cluster, with the partitions that have them and their limits in minutes."""
    columns = "Partition:.20,Time:.20,Gres:.40,NodeList:.20"
    text = subprocess.run(["sinfo", "-h", "-N", "-O", columns], capture_output=True, text=True, check=True).stdout
    types = {}
    for partition, limit, gres, node in (line.split() for line in text.splitlines()):
        name, count = re.fullmatch(r"gpu:([^:(]+):(\d+).*", gres).groups()
        days, _, clock = limit.rpartition("-")
        parts = [int(part) for part in clock.split(":")]
        own = types.setdefault(name, {"gpus": int(count), "of": set(), "partitions": {}})
        own["of"].add(node)
        own["partitions"][partition.rstrip("*")] = int(days or 0) * 1440 + parts[0] * 60 + parts[1]
    return {name: {**own, "nodes": len(own["of"])} for name, own in sorted(types.items())}


class Recorder:
    """Submits, and stores the observations."""

    def __init__(self, cluster, seed, hsched, scratch):
        self.clock, self.hsched, self.scratch = Clock(cluster), hsched, scratch
        self.rng, self.types = random.Random(seed), gpu_types()
        self.submissions = []
        for user in USERS:
            os.mkdir(f"{scratch}/{user}")
            os.chown(f"{scratch}/{user}", pwd.getpwnam(user).pw_uid, -1)

    def submit(self):
        """Records the queue, runs `--test-only`, and submits."""
        number = len(self.submissions)
        request = draw(self.rng, self.types, number)
        run_s = request.minutes * 60 * self.rng.uniform(0.02, 0.4)
        path = f"{self.scratch}/{request.user}/{number:03}.json"
        with self.look(request, path) as look:
            seen = self.saved(look, path)
            test = self.sbatch(request, run_s, "--test-only")
            answer = self.sbatch(request, run_s, "--parsable")
            told = json.loads(look.communicate()[0])
        if answer.returncode != 0:
            print(f"{' '.join(request.options)}: {answer.stderr.strip()}", file=sys.stderr)
            return
        snapshot = f"snapshots/{number:03}.json"
        os.rename(path, f"{self.scratch}/{snapshot}")
        job = int(answer.stdout.split(";")[0])
        start = re.search(r"to start at (\S+)", test.stderr)
        self.submissions.append({
            "n": number, "snapshot": snapshot, "at": seen["taken_at"], "job": job,
            "request": {"user": request.user, "account": request.account, "partition": request.partition, "qos": "normal",
                        "limit_s": request.minutes * 60.0, "priority": priority(told, request.user, job), "asks": request.asks},
            "yaml": request.yaml, "options": request.options, "run_s": run_s, "waited_s": None, "open_s": None, "trace": [],
            "test_only": unix(start.group(1)) if start else None, "test_only_text": test.stderr.strip()})

    def look(self, request, path):
        """Starts `hsched when` with the cluster's clock as the user; it saves the queue first."""
        with open(f"{path}.yaml", "w", encoding="utf-8") as file:
            file.write(request.yaml)
        environment = {"PATH": os.environ["PATH"], "SLURM_CONF": os.environ["SLURM_CONF"], "HOME": os.path.dirname(path),
                       "TZ": "UTC", **self.clock.variables}
        command = [self.hsched, "when", f"{path}.yaml", "--save", path, "--futures", "1", "--format", "json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd="/tmp", **as_user(request.user))

    def saved(self, look, path):
        """Returns the queue as soon as it is saved."""
        while True:
            ended = look.poll() is not None
            try:
                with open(path, encoding="utf-8") as file:
                    return json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                if ended:
                    sys.exit("record-limits: hsched when saved nothing")
            time.sleep(0.02)

    def sbatch(self, request, run_s, how):
        command = ["sbatch", how, "--job-name=ours", "--chdir=/tmp", "--output=/dev/null", *request.options,
                   "--wrap", f"sleep {run_s / self.clock.speed:.3f}"]
        return subprocess.run(command, capture_output=True, text=True, check=False, **as_user(request.user))

    def read_starts(self):
        """Notes the starts that the accounting knows, and why the others wait. Returns how many wait."""
        now = self.clock.now()
        first, last = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) for at in (self.submissions[0]["at"] - 3600, now + 86400))
        text = ask("root", "sacct", "-nXP", "-a", "--name=ours", "-o", "JobIDRaw,Start", "-S", first, "-E", last)
        starts = dict(line.split("|") for line in text.splitlines())
        text = ask("root", "squeue", "-h", "-n", "ours", "-t", "PENDING", "-o", "%i|%r")
        reasons = dict(line.split("|", 1) for line in text.splitlines())
        for own in self.submissions:
            own["open_s"] = now - own["at"]
            start, reason = starts.get(str(own["job"]), ""), reasons.get(str(own["job"]))
            if start[:1].isdigit():
                own["waited_s"] = unix(start) - own["at"]
            if reason and (not own["trace"] or own["trace"][-1][1] != reason):
                own["trace"].append([round(now), reason])
        return sum(own["waited_s"] is None for own in self.submissions)

    def write(self, out):
        with open(f"{out}/submissions.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(own) + "\n" for own in self.submissions)
        with tarfile.open(f"{out}/snapshots.tar.gz", "w:gz") as archive:
            archive.add(f"{self.scratch}/snapshots", "snapshots")


def priority(told, user, job):
    """Returns the priority that `hsched when` used or, for a request that it does not list, the one that Slurm assigned."""
    rows = [row for own in told["jobs"] for row in own["options"]]
    return rows[0]["priority"] if rows else float(ask(user, "squeue", "-h", "-j", str(job), "-o", "%Q"))


def unix(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def record(cluster, out, count, seed, hsched):
    """Records until all submissions that can start have started, or MOST_WAIT has passed."""
    os.environ["TZ"] = "UTC"
    with open(f"{out}/site.json", "w", encoding="utf-8") as file:
        json.dump(site(), file, indent=1)
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        os.mkdir(f"{scratch}/snapshots")
        recorder = Recorder(cluster, seed, hsched, scratch)
        due = recorder.clock.now()
        while len(recorder.submissions) < count:
            recorder.clock.wait_until(due)
            recorder.submit()
            recorder.read_starts()
            print(f"{len(recorder.submissions)} of {count} submitted", file=sys.stderr)
            due += recorder.rng.expovariate(1 / GAP)
        never = sum(number < count for number in NEVER)
        end, waiting = recorder.clock.now() + MOST_WAIT, count
        while waiting > never and recorder.clock.now() < end:
            recorder.clock.wait_until(recorder.clock.now() + LOOK)
            waiting = recorder.read_starts()
            recorder.write(out)
            print(f"{waiting} still wait", file=sys.stderr)
        recorder.write(out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["limits"]:
        set_limits(int(sys.argv[2]))
    else:
        record(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
