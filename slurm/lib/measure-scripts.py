"""Submits scripts as written and as `hsched when --apply 1` changes them, to the same queue, and compares when they start.

usage: measure-scripts.py past CLUSTER_DIR SEED                (runs of each script's name, before others submit)
       measure-scripts.py record CLUSTER_DIR OUT_FILE COUNT SEED HSCHED MOST_HOURS
       measure-scripts.py table OUT_FILE...

`slurm/measure-scripts` calls it. A script stands for a training that takes about as long as its past runs, and twice as long on half of
the GPUs. All times are the cluster's.
"""
import calendar
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import typing

from cluster_clock import Clock

FAMILIES = 8
PAST_RUNS = 4
SPREAD = 0.1  # of the logarithm of a name's run times
KINDS = [("a100", 12), ("v100", 12), ("t4", 8)]
COUNTS = [(1, 45), (2, 25), (4, 24), (8, 6)]
LIMITS = [(8, 1), (12, 2), (24, 4), (48, 1)]  # hours that people request to be safe
GAP = 2400  # seconds between pairs, on average
LOOK = 1800
CUT = 4  # a run that reaches its limit counts as this many original waits


def pick(rng, weighted):
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


class Family(typing.NamedTuple):
    """Scripts of one name."""

    name: str
    kind: str
    gpus: int
    limit_h: int
    run_s: float
    cpus: int  # for each GPU
    memory: int  # GB for each GPU
    form: int

    @property
    def nodes(self):
        return -(-self.gpus // 4)

    def options(self):
        """Returns the options as people write them: one of several forms."""
        each = self.gpus // self.nodes
        gpus = [f"--gres=gpu:{self.kind}:{each}", f"--gpus-per-node={self.kind}:{each}", f"--gpus={self.kind}:{self.gpus}"][self.form % 3]
        tasks = [["--ntasks-per-node=1", f"--cpus-per-task={self.cpus * each}"], [f"--ntasks-per-node={each}", f"--cpus-per-task={self.cpus}"]][self.form % 2]
        return [f"--job-name={self.name}", "--account=astro", "--partition=gpu", f"--time={self.limit_h}:00:00   # to be safe",
                f"--nodes={self.nodes}", gpus, *tasks, f"--mem={self.memory * each}G", "--output=/dev/null"]

    def script(self, run_s, speed):
        head = "".join(f"#SBATCH {option}\n" for option in self.options())
        return (f"#!/bin/bash\n{head}\ngpus=$((SLURM_GPUS_ON_NODE * SLURM_JOB_NUM_NODES))\n"
                f"sleep \"$(awk -v gpus=\"$gpus\" 'BEGIN {{ print {run_s / speed:.3f} * {self.gpus} / gpus }}')\"\n")


def families(seed):
    rng = random.Random(seed)
    made = []
    for number in range(FAMILIES):
        limit = pick(rng, LIMITS)
        used = rng.uniform(0.03, 0.4)  # of the time limit: half of all real jobs use less than a quarter of theirs
        made.append(Family(f"family{number}", pick(rng, KINDS), pick(rng, COUNTS), limit, max(1800.0, limit * 3600 * used),
                           rng.choice([2, 4, 8]), rng.choice([8, 16, 32]), number))
    return made


def submit(path):
    answer = subprocess.run(["sbatch", "--parsable", path], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print(f"{path}: {answer.stderr.strip()}", file=sys.stderr)
        return None
    return int(answer.stdout.split(";")[0])


def past(cluster, seed):
    """Runs each script a few times in the empty cluster."""
    speed, rng = Clock(cluster).speed, random.Random(seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        for family in families(seed):
            for number in range(PAST_RUNS):
                path = f"{folder}/{family.name}-{number}.sh"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(family.script(family.run_s * rng.lognormvariate(0, SPREAD), speed))
                submit(path)


class Recorder:
    def __init__(self, cluster, seed, hsched, folder):
        self.clock, self.hsched, self.folder = Clock(cluster), hsched, folder
        self.families, self.rng = families(seed), random.Random(seed + 2)
        self.pairs = []

    def when(self, *arguments):
        environment = {**os.environ, **self.clock.variables, "HSCHED_STATE_DIR": f"{self.folder}/state", "TZ": "UTC"}
        command = [self.hsched, "when", *arguments, "--budget", "1h", "--futures", "40"]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/tmp")

    def submit(self):
        number = len(self.pairs)
        family = self.families[number % FAMILIES]
        run_s = family.run_s * self.rng.lognormvariate(0, SPREAD)
        written, changed = (f"{self.folder}/{number:02}-{name}.sh" for name in ("written", "changed"))
        for path in (written, changed):
            with open(path, "w", encoding="utf-8") as file:
                file.write(family.script(run_s, self.clock.speed))
        shown = self.when(changed, "--format", "json")
        applied = self.when(changed, "--apply", "1")
        if applied.returncode not in (0, 3):
            print(applied.stderr, file=sys.stderr)
        told = json.loads(shown.stdout)["script"] if shown.stdout else None
        first = (told or {}).get("changes") or []
        change = first[0]["options"] if first and applied.returncode == 0 else []
        order = [written, changed] if number % 2 == 0 else [changed, written]
        at = self.clock.now()
        ids = {path: submit(path) for path in order}
        self.pairs.append({"n": number, "family": family._asdict(), "run_s": run_s, "at": at, "change": change,
                           "costs": first[0]["costs"] if change else [], "told": told,
                           "written": {"job": ids[written]}, "changed": {"job": ids[changed]}})
        print(f"{number}: {family.gpus} {family.kind}, {family.limit_h} h: {' '.join(change) or 'no change'}", file=sys.stderr, flush=True)

    def read(self):
        """Notes starts and ends that the accounting knows; returns how many jobs have not ended."""
        now = self.clock.now()
        first, last = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) for at in (self.pairs[0]["at"] - 3600, now + 86400))
        text = subprocess.run(["sacct", "-nXP", "-o", "JobIDRaw,Start,End,State", "-S", first, "-E", last], capture_output=True,
                              text=True, check=True, env={**os.environ, "TZ": "UTC"}).stdout
        jobs = {fields[0]: fields[1:] for fields in (line.split("|") for line in text.splitlines())}
        left = 0
        for pair in self.pairs:
            for own in (pair["written"], pair["changed"]):
                start, end, state = jobs.get(str(own["job"]), ("", "", ""))
                started = start[:1].isdigit()
                own.update(state=state.split()[0] if state else "", started=started,
                           waited_s=max(0.0, unix(start) - pair["at"]) if started else now - pair["at"])
                own["ended"] = started and end[:1].isdigit() and own["state"] not in ("RUNNING", "PENDING")
                left += not own["ended"]
        return left


def unix(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def record(cluster, out, count, seed, hsched, most_hours):
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(cluster, seed, hsched, folder)
        due = recorder.clock.now()
        while len(recorder.pairs) < count:
            recorder.clock.wait_until(due)
            recorder.submit()
            due = max(due, recorder.clock.now() - GAP) + recorder.rng.expovariate(1 / GAP)
        end = recorder.clock.now() + most_hours * 3600
        while recorder.read() and recorder.clock.now() < end:
            recorder.clock.wait_until(recorder.clock.now() + LOOK)
            write(out, recorder.pairs)
        write(out, recorder.pairs)
    table([out])


def write(out, pairs):
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(own) + "\n" for own in pairs)


def table(paths):
    """Prints the mean time to the start of original and changed scripts, by kind of change."""
    pairs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            pairs += [json.loads(line) for line in file]
    groups = {"all": pairs, "changed": [own for own in pairs if own["change"]], "not changed": [own for own in pairs if not own["change"]]}
    for own in pairs:
        kind = " ".join(sorted(re.match("--([a-z-]+)", word).group(1) for word in own["change"]))
        if kind:
            groups.setdefault(kind, []).append(own)
    print("change,scripts,written_h,changed_h,ratio,cut,not_started")
    for name, list_ in groups.items():
        if not list_:
            continue
        cut = [own for own in list_ if own["changed"]["state"] == "TIMEOUT"]
        wait = {way: sum(own[way]["waited_s"] for own in list_) / len(list_) / 3600 for way in ("written", "changed")}
        for own in cut:
            wait["changed"] += (CUT * own["written"]["waited_s"] - own["changed"]["waited_s"]) / len(list_) / 3600
        waiting = sum(not own[way]["started"] for own in list_ for way in ("written", "changed"))
        ratio = wait["changed"] / wait["written"] if wait["written"] else 1.0
        print(f"{name},{len(list_)},{wait['written']:.2f},{wait['changed']:.2f},{ratio:.2f},{len(cut)},{waiting}")


def main():
    what, *rest = sys.argv[1:]
    if what == "past":
        past(rest[0], int(rest[1]))
    elif what == "record":
        record(rest[0], rest[1], int(rest[2]), int(rest[3]), rest[4], float(rest[5]))
    else:
        table(rest)


if __name__ == "__main__":
    main()
