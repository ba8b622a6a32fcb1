#!/usr/bin/env python3
"""Provokes reasons of pending jobs on a real Slurm, asks `hsched why` about them and follows its advice.

usage: record-why.py nodes                                            (prints the node file)
       record-why.py run CLUSTER_DIR OUT_DIR HSCHED [CASE…]

`slurm/measure-why` calls it, as root, because it has several users. Each case has two sides with equal jobs and limits:
on side l the job is left alone, on side r the first change of the advice is made. All times are the cluster's.
"""
import calendar
import dataclasses
import importlib.util
import json
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
import time

# Users and their colleagues; two cases that run side by side share them.
SLOTS = 2 * [("proxy", "games"), ("www-data", "mail"), ("backup", "news"), ("list", "uucp"), ("lp", "man"), ("irc", "bin"), ("sys", "daemon")]
# In minutes of the cluster's clock: the time that other jobs continue after the change, the time for which an
# unchanged job is watched, the time limit of other jobs, and the run time of a job that has started.
BUSY, WATCH, LIMIT, RUN = 60, 75, 1200, 30
# How long a reason may take to appear, in seconds of the machine.
PATIENCE = 40


def load_recorder():
    """Returns the module record-limits, for its clock and `as_user`."""
    path = os.path.join(os.path.dirname(__file__), "record-limits.py")
    spec = importlib.util.spec_from_file_location("record_limits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclasses.dataclass
class Job:
    """A job of a case: GPUs, time limit in minutes, and further options of sbatch."""

    gpus: int = 1
    limit: int = LIMIT
    options: tuple = ()
    end: str = "released"  # "released": BUSY minutes after the change; "soon": after RUN minutes; "fails": at once
    other: bool = False  # of the colleague, not of the user


@dataclasses.dataclass
class Case:
    """The set-up, the job to explain, and the expected output of `why`."""

    name: str
    kind: str
    job: Job
    before: tuple = ()
    account: str = ""  # limits of the account
    user: str = ""     # limits of the user in it
    qos: str = ""      # limits of the QOS of the job
    partition: str = ""  # fields of the partition that are set first
    after: tuple = ()  # actions of root: reservations before all jobs, the others after the submission of the job
    reason: str = ""   # how Slurm's reason begins, if not with the name of the case
    limit: tuple = ()  # name and number of the limit
    spare: bool = False  # whether the account may also use the spare partition
    has_step: bool = True


FULL = (Job(4, other=True), Job(4, other=True))
OWN = (Job(2),)
CASES = [
    Case("Priority", "waits", Job(2, 2000, ("--nice=1000000",)),
         (Job(4, 1430, other=True), Job(2, other=True), Job(4, LIMIT, ("--comment=wide",), other=True))),
    Case("Resources", "waits", Job(4, 60), (Job(4), Job(4))),
    Case("ReqNodeNotAvail", "waits", Job(2, 2880), after=("reserve+900",), reason="ReqNodeNotAvail"),
    Case("Dependency", "waits", Job(1, 60, ("--dependency=afterany:{first}",)), OWN),
    Case("DependencyNeverSatisfied", "never", Job(1, 60, ("--dependency=afterok:{first}",)), (Job(1, end="fails"),)),
    Case("BeginTime", "waits", Job(1, 60, ("--begin=now+20hours",))),
    Case("JobHeldUser", "held", Job(1, 60, ("--hold",))),
    Case("JobHeldAdmin", "held", Job(1, 60, ("--begin=now+20hours",)), after=("hold",), has_step=False),
    Case("JobArrayTaskLimit", "waits", Job(1, LIMIT, ("--array=1-3%1",)), limit=("ArrayTaskThrottle", 1)),
    Case("PartitionTimeLimit", "never", Job(1, 180), partition="MaxTime=60", limit=("MaxTime", 60)),
    Case("PartitionNodeLimit", "never", Job(1, 60, ("--nodes=2",)), partition="MaxNodes=1", limit=("MaxNodes", 1)),
    Case("PartitionDown", "waits", Job(1, 60), FULL, after=("partition State=DOWN",), spare=True),
    Case("PartitionInactive", "waits", Job(1, 60), FULL, after=("partition State=INACTIVE",), spare=True),
    Case("AssocGrpGRES", "waits", Job(2, 60), OWN, account="GrpTRES=gres/gpu=2", limit=("GrpTRES", 2)),
    Case("AssocGrpGRES-never", "never", Job(4, 60), account="GrpTRES=gres/gpu=2", limit=("GrpTRES", 2), reason="AssocGrpGRES"),
    Case("AssocMaxJobsLimit", "waits", Job(1, 60), OWN, user="MaxJobs=1", limit=("MaxJobs", 1)),
    Case("AssocGrpJobsLimit", "waits", Job(1, 60), OWN, account="GrpJobs=1", limit=("GrpJobs", 1)),
    Case("AssocMaxWallDurationPerJobLimit", "never", Job(1, 180), account="MaxWall=60", limit=("MaxWall", 60)),
    Case("AssocMaxGRESPerJob", "never", Job(4, 60), account="MaxTRES=gres/gpu=2", limit=("MaxTRES", 2)),
    Case("AssocMaxGRESPerNode", "never", Job(4, 60), account="MaxTRESPerNode=gres/gpu=2", limit=("MaxTRESPerNode", 2)),
    Case("AssocGrpGRESRunMinutes", "waits", Job(2, 1000), OWN, account="GrpTRESRunMins=gres/gpu=4000", limit=("GrpTRESRunMins", 4000)),
    Case("AssocMaxGRESMinutesPerJob", "never", Job(2, 180), account="MaxTRESMins=gres/gpu=200", limit=("MaxTRESMins", 200)),
    Case("AssocGrpCpuLimit", "waits", Job(1, 60, ("--cpus-per-task=4",)), (Job(1, options=("--cpus-per-task=4",)),), account="GrpTRES=cpu=4",
         limit=("GrpTRES", 4)),
    Case("AssocGrpMemLimit", "waits", Job(1, 60, ("--mem=800",)), (Job(1, options=("--mem=800",)),), account="GrpTRES=mem=1000",
         limit=("GrpTRES", 1000)),
    Case("AssocMaxCpuPerJobLimit", "never", Job(1, 60, ("--cpus-per-task=4",)), account="MaxTRES=cpu=2", limit=("MaxTRES", 2), has_step=False),
    Case("QOSMaxJobsPerUserLimit", "waits", Job(1, 60), OWN, qos="MaxJobsPerUser=1", limit=("MaxJobsPerUser", 1)),
    Case("QOSMaxGRESPerUser", "waits", Job(2, 60), OWN, qos="MaxTRESPerUser=gres/gpu=2", limit=("MaxTRESPerUser", 2)),
    Case("QOSMaxCpuPerUserLimit", "waits", Job(1, 60, ("--cpus-per-task=4",)), (Job(1, options=("--cpus-per-task=4",)),),
         qos="MaxTRESPerUser=cpu=4", limit=("MaxTRESPerUser", 4)),
    Case("QOSGrpGRES", "waits", Job(2, 60), (Job(2, other=True),), qos="GrpTRES=gres/gpu=2", limit=("GrpTRES", 2)),
    Case("QOSGrpCpuLimit", "waits", Job(1, 60, ("--cpus-per-task=4",)), (Job(1, options=("--cpus-per-task=4",), other=True),),
         qos="GrpTRES=cpu=4", limit=("GrpTRES", 4)),
    Case("QOSGrpJobsLimit", "waits", Job(1, 60), (Job(1, other=True),), qos="GrpJobs=1", limit=("GrpJobs", 1)),
    Case("QOSMaxWallDurationPerJobLimit", "never", Job(1, 180), qos="MaxWall=60", limit=("MaxWall", 60)),
    Case("QOSMaxGRESPerJob", "never", Job(4, 60), qos="MaxTRES=gres/gpu=2", limit=("MaxTRES", 2)),
    Case("QOSMaxGRESPerNode", "never", Job(4, 60), qos="MaxTRESPerNode=gres/gpu=2", limit=("MaxTRESPerNode", 2)),
    Case("QOSMaxGRESMinutesPerJob", "never", Job(2, 180), qos="MaxTRESMins=gres/gpu=200", limit=("MaxTRESMins", 200)),
    Case("QOSGrpGRESRunMinutes", "waits", Job(2, 1000), (Job(2, other=True),), qos="GrpTRESRunMins=gres/gpu=4000",
         limit=("GrpTRESRunMins", 4000)),
    Case("QOSMinGRES", "never", Job(1, 60), qos="MinTRES=gres/gpu=2", limit=("MinTRES", 2)),
    Case("MaxGRESPerAccount", "waits", Job(2, 60), (Job(2, other=True),), qos="MaxTRESPerAccount=gres/gpu=2", limit=("MaxTRESPerAccount", 2)),
    Case("MaxJobsPerAccount", "waits", Job(1, 60), (Job(1, other=True),), qos="MaxJobsPerAccount=1", limit=("MaxJobsPerAccount", 1)),
    Case("Reservation", "waits", Job(1, 60, ("--reservation=res-{account}",)), after=("reserve-first+900",)),
    Case("QOSNotAllowed", "never", Job(1, 60), FULL, qos="Priority=1", after=("partition AllowQos=normal",), reason="Job's QOS not"),
]


class Side:
    """One of the two equal halves of a case: its partition, account, QOS and users."""

    def __init__(self, bench, case, number, slot, letter):
        self.bench, self.case, self.letter = bench, case, letter
        self.partition = f"p{slot}{letter}"
        self.nodes = f"n{slot}{letter}[1-2]"
        self.account, self.qos = f"a{number:02}{letter}", f"q{number:02}{letter}"
        self.user, self.other = SLOTS[slot]
        self.flag = f"{bench.scratch}/{self.account}-over"
        self.job = self.first = self.told = self.applied_at = self.step = self.shown_reason = None

    def accounting(self):
        """Returns the lines for sacctmgr that open the account and the QOS."""
        case, qos = self.case, f"normal,{self.qos}" if self.case.qos else "normal"
        lines = [f"add account {self.account} {case.account}"]
        if case.qos:
            lines.insert(0, f"add qos {self.qos} {case.qos}")
        lines += [f"add user {self.user} account={self.account} qos={qos} {case.user}",
                  f"add user {self.other} account={self.account} qos={qos}"]
        return lines

    def submit(self, job, number):
        """Submits a job from a separate script; returns its id."""
        user = self.other if job.other else self.user
        options = [f"--account={self.account}", f"--partition={self.partition}", f"--time={job.limit}", f"--gres=gpu:v100:{job.gpus}",
                   "--output=/dev/null", "--chdir=/tmp", f"--job-name={self.account}-{number}"]
        options += [f"--qos={self.qos}"] if self.case.qos else []
        if not any(option.startswith("--mem") for option in job.options):
            options.append("--mem=100")
        options += [option.format(first=self.first, account=self.account) for option in job.options]
        body = {"fails": "exit 1", "soon": f"sleep {RUN * 60 / self.bench.clock.speed:.1f}",
                "released": f"while [[ ! -e {self.flag} ]]; do sleep 0.5; done"}[job.end]
        path = f"{self.bench.scratch}/{self.account}-{number}.sh"
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options) + body + "\n")
        os.chmod(path, 0o755)
        return self.bench.ask(user, "sbatch", "--parsable", path).split(";")[0].strip()

    def begin(self):
        """Fills the nodes, and submits the job."""
        scontrol = self.bench.scontrol
        scontrol("update", f"PartitionName={self.partition}", f"AllowAccounts={self.account}", "AllowQos=ALL", "State=UP",
                 "MaxTime=UNLIMITED", "MaxNodes=UNLIMITED")
        if self.case.partition:
            scontrol("update", f"PartitionName={self.partition}", *self.case.partition.split())
        for action in self.case.after:
            if action.startswith("reserve"):
                self.reserve(action)
        for number, job in enumerate(self.case.before):
            own = self.submit(job, number)
            self.first = self.first or own
            if "--comment=wide" not in job.options:
                self.bench.wait(lambda own=own: self.bench.states().get(own, ("", ""))[0] not in ("", "PENDING"))
        end = "released" if self.case.name == "JobArrayTaskLimit" else "soon"
        self.job = self.submit(dataclasses.replace(self.case.job, end=end), 9)
        for action in self.case.after:
            self.act(action)

    def reserve(self, action):
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.bench.clock.now() + int(action.split("+")[1]) * 60))
        own = ["Flags=maint,ignore_jobs"] if action.startswith("reserve+") else ["Flags=ignore_jobs"]
        who = "root" if action.startswith("reserve+") else self.user
        self.bench.scontrol("create", "reservation", f"ReservationName=res-{self.account}", f"StartTime={start}", "Duration=60",
                            f"Nodes={self.nodes}", f"Users={who}", *own)

    def act(self, action):
        if action == "hold":
            self.bench.scontrol("hold", self.job)
        elif action.startswith("partition "):
            self.bench.scontrol("update", f"PartitionName={self.partition}", *action.split()[1:])

    def reason(self):
        """Returns Slurm's reason for the job; empty if the job is not pending."""
        text = self.bench.ask("root", "squeue", "-h", "-t", "PENDING", "-j", self.job, "-O", "Reason:200")
        return text.splitlines()[0].strip() if text.strip() else ""

    def hsched(self, *arguments):
        folder = f"{self.bench.scratch}/{self.account}"
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, pwd.getpwnam(self.user).pw_uid, -1)
        environment = {"PATH": os.environ["PATH"], "SLURM_CONF": os.environ["SLURM_CONF"], "HOME": folder, "TZ": "UTC",
                       **self.bench.clock.variables}
        return subprocess.run([self.bench.hsched, "why", *arguments], capture_output=True, text=True, check=False, env=environment,
                              cwd="/tmp", **self.bench.recorder.as_user(self.user))

    def explain(self):
        """Runs `hsched why`, and stores its output."""
        self.shown_reason = self.reason()
        answer = self.hsched(self.job, "--format", "json")
        if answer.returncode != 0:
            print(f"{self.case.name}: {answer.stdout}{answer.stderr}", file=sys.stderr)
            return
        self.told = json.loads(answer.stdout)["jobs"][0]

    def follow(self):
        """Makes the first change of the advice."""
        self.applied_at = self.bench.clock.now()
        if not self.told or not self.told["advice"]:
            return
        self.step = self.told["advice"][0]
        if self.step["in_place"]:
            answer = self.hsched(self.job, "--apply", "1")
            if answer.returncode != 0:
                print(f"{self.case.name}: {self.step['command']}: {answer.stderr}", file=sys.stderr)
        else:
            words = shlex.split(self.step["command"])
            new = self.bench.ask(self.user, words[0], "--parsable", *words[1:])
            self.bench.ask(self.user, "scancel", self.job)
            self.job = new.split(";")[0].strip()

    def started(self):
        """Returns when the job started or, for an array, when its second task did."""
        states = self.bench.states()
        if self.case.name == "JobArrayTaskLimit":
            starts = sorted(start for own, (state, start) in states.items() if own.startswith(f"{self.job}_") and state != "PENDING" and start)
            return starts[1] if len(starts) > 1 else None
        state, start = states.get(self.job, ("", ""))
        return start if state not in ("", "PENDING") and start else None


class Bench:
    """The cluster, and shared data of the cases."""

    def __init__(self, cluster, scratch, hsched):
        self.recorder = load_recorder()
        self.clock = self.recorder.Clock(cluster)
        self.scratch, self.hsched = scratch, hsched
        self.seen = {}

    def ask(self, user, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self.recorder.as_user(user))
        if done.returncode != 0:
            print(f"{user}: {' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)
        return done.stdout

    def scontrol(self, *words):
        self.ask("root", "scontrol", *words)

    def states(self):
        """Returns the state and the start of every job, also of those that have ended since."""
        text = self.ask("root", "squeue", "-h", "-a", "-r", "-t", "all", "-O", "JobArrayID:40,State:20,StartTime:30")
        for own, state, start in (line.split()[:3] for line in text.splitlines() if len(line.split()) > 2):
            begin = calendar.timegm(time.strptime(start, "%Y-%m-%dT%H:%M:%S")) if start[:1].isdigit() else None
            self.seen[own] = (state, begin)
        return self.seen

    def wait(self, is_done, patience=PATIENCE):
        end = time.time() + patience
        while time.time() < end:
            if is_done():
                return True
            time.sleep(0.5)
        return False


def run(bench, cases, numbers, out):
    """Runs some cases side by side; returns what came of each."""
    sides = [Side(bench, case, number, slot, letter)
             for slot, (case, number) in enumerate(zip(cases, numbers)) for letter in "lr"]
    spare = ",".join(side.account for side in sides if side.case.spare) or "root"
    bench.scontrol("update", "PartitionName=spare", f"AllowAccounts={spare}")
    for side in sides:
        side.begin()
    for side in sides:
        expected = side.case.reason or side.case.name
        bench.wait(lambda side=side, expected=expected: side.reason().startswith(expected))
    ours = [side for side in sides if side.letter == "r"]
    for side in ours:
        side.explain()
        side.follow()
    pairs = list(zip(sides[::2], sides[1::2]))
    begin = bench.clock.now()
    while bench.clock.now() < begin + WATCH * 60 and not all(side.started() for side in sides):
        for left, right in pairs:
            if bench.clock.now() > right.applied_at + BUSY * 60:
                for side in (left, right):
                    open(side.flag, "w", encoding="utf-8").close()
        time.sleep(1)
    results = []
    for left, right in pairs:
        results.append(result(bench, left, right))
        with open(f"{out}/cases.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(results[-1]) + "\n")
        print(results[-1]["line"], file=sys.stderr)
    for name in {user for slot in SLOTS for user in slot}:
        bench.ask("root", "scancel", "-u", name)
    for side in sides:
        if any(action.startswith("reserve") for action in side.case.after):
            bench.scontrol("delete", f"ReservationName=res-{side.account}")
    bench.wait(lambda: not bench.ask("root", "squeue", "-h", "-t", "R,CG,PD").strip())
    return results


def result(bench, left, right):
    """Returns what came of a case."""
    case, told = right.case, right.told or {}
    now = bench.clock.now()
    expected = case.reason or case.name
    limit = told.get("limit")
    is_right = (str(told.get("reason", "")).replace("_", " ").startswith(expected) and told.get("kind") == case.kind
                and (not case.limit or bool(limit) and (limit["name"], limit["max"]) == case.limit))
    alone, advised = left.started(), right.started()
    minutes = lambda start: None if start is None else max(0, round((start - right.applied_at) / 60))
    shown = lambda start: f"not within {round((now - right.applied_at) / 60)} min" if start is None else f"{minutes(start)} min"
    step = right.step["command"] if right.step else "none"
    step = step.replace(right.bench.scratch + "/", "").replace(right.account + "-9.sh", "train.sh")
    both = f"{limit['max']:g}, {limit['used']:g}" if limit else ""
    line = f"| {case.name} | {told.get('kind', 'none')} | {'yes' if is_right else 'NO'} | {both} | `{step}` | {shown(alone)} | {shown(advised)} |"
    return {"case": case.name, "slurm": right.shown_reason, "told": told, "right": is_right, "step": step, "has_step": case.has_step,
            "alone_min": minutes(alone), "advised_min": minutes(advised), "line": line}


def nodes():
    """Prints the node file: two nodes and a partition for each side of each slot, and a spare partition."""
    print("partition spare default max_time=infinite default_time=60")
    for slot in range(len(SLOTS)):
        for letter in "lr":
            print(f"partition p{slot}{letter} max_time=infinite default_time=60")
    print("s[1-2] cpus=16 memory=64000 gpus=v100:4 features=v100 partitions=spare")
    for slot in range(len(SLOTS)):
        for letter in "lr":
            print(f"n{slot}{letter}[1-2] cpus=16 memory=64000 gpus=v100:4 features=v100 partitions=p{slot}{letter}")


def main(cluster, out, hsched, names):
    os.environ["TZ"] = "UTC"
    chosen = [(number, case) for number, case in enumerate(CASES) if not names or case.name in names]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(cluster)) as scratch:
        os.chmod(scratch, 0o755)
        bench = Bench(cluster, scratch, hsched)
        lines = []
        for place, (number, case) in enumerate(chosen):
            for letter in "lr":
                lines += Side(bench, case, number, place % len(SLOTS), letter).accounting()
        text = "\n".join([*lines, "quit\n"])
        subprocess.run(["sacctmgr", "--immediate"], input=text, text=True, stdout=subprocess.DEVNULL, check=True)
        results = []
        for begin in range(0, len(chosen), len(SLOTS)):
            batch = chosen[begin:begin + len(SLOTS)]
            results += run(bench, [case for _, case in batch], [number for number, _ in batch], out)
            write(out, results)


def write(out, results):
    """Writes the table and its summary."""
    followed = [own for own in results if own["step"] != "none"]
    sooner = [own for own in followed if own["advised_min"] is not None
              and (own["alone_min"] is None or own["advised_min"] < own["alone_min"])]
    with open(f"{out}/table.md", "w", encoding="utf-8") as file:
        file.write("| reason | kind | named rightly | limit, in use | change | starts unchanged after | starts changed after |\n"
                   "|---|---|---|---|---|---|---|\n")
        file.writelines(own["line"] + "\n" for own in results)
        file.write(f"\n{sum(own['right'] for own in results)} of {len(results)} named rightly; with a change, {len(sooner)} of "
                   f"{len(followed)} started sooner than left alone.\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["nodes"]:
        nodes()
    else:
        main(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
