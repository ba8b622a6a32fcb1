"""Reads the queue of a running cluster each hour of its clock, submits jobs, and compares the estimates of `hsched when` with the actual starts.

usage: measure-looks.py record CLUSTER_DIR OUT_FILE HOURS SEED HSCHED
       measure-looks.py table OUT_FILE...

`slurm/measure-looks` calls it, as root. `USER` sees only its own jobs, root sees all; each has a state directory of its own. A line of
OUT_FILE is a submitted job: its estimates for both users, and how long it waited. All times are the cluster's.
"""
import calendar
import json
import math
import os
import pwd
import random
import subprocess
import sys
import tempfile
import time

from cluster_clock import Clock

USER, ACCOUNT = "proxy", "astro"
EACH_HOUR = 2
KINDS = [("a100", 12), ("v100", 12), ("t4", 8)]
COUNTS = [(1, 50), (2, 30), (4, 20)]
LIMITS = [(1, 3), (3, 3), (8, 3), (16, 1)]  # hours
MOST_WAIT = 24 * 3600  # how long jobs are watched after the last submission
LOOK = 1800
TOLERANCE = 150  # the duration of a start on this clock


def pick(rng, weighted):
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]


def as_user(name):
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def draw(rng):
    return {"kind": pick(rng, KINDS), "gpus": pick(rng, COUNTS), "hours": pick(rng, LIMITS)}


def job_text(name, job):
    """Returns the lines of a job file for which `when` lists this request alone: it needs half of its limit."""
    speed = 2e6 / (job["hours"] * 1800 * job["gpus"])
    return f"""  - name: {name}
    samples_per_epoch: 100000
    epochs: 20
    global_batch: 64
    model_size: 1MB
    min_gpus: {job["gpus"]}
    max_gpus: {job["gpus"]}
    account: {ACCOUNT}
    partition: gpu
    cpus_per_gpu: 4
    time: {job["hours"]}h
    throughput: {{{job["kind"]}: {speed:.6f}}}
    command: [python3, train.py]
"""


class Recorder:
    def __init__(self, cluster, seed, hsched, folder):
        self.clock, self.hsched, self.folder = Clock(cluster), hsched, folder
        self.rng, self.jobs = random.Random(seed), []
        for name in (USER, "root"):
            os.mkdir(f"{folder}/{name}")
            os.chown(f"{folder}/{name}", pwd.getpwnam(name).pw_uid, -1)

    def look(self, name, path):
        """Returns the estimates for a user's jobs in a file, and the state of learning by then."""
        home = f"{self.folder}/{name}"
        environment = {"PATH": os.environ["PATH"], "SLURM_CONF": os.environ["SLURM_CONF"], "HOME": home, "TZ": "UTC",
                       "HSCHED_STATE_DIR": f"{home}/state", **self.clock.variables}
        command = [self.hsched, "when", path, "--format", "json", "--futures", "40", "--budget", "1h"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/tmp", **as_user(name))
        if not ran.stdout:
            print(f"{name}: {ran.stderr.strip()}", file=sys.stderr)
            return {}, None
        told = json.loads(ran.stdout)
        rows = {own["name"]: (own["options"] or [{}])[0] for own in told["jobs"]}
        return rows, told["queues"][0].get("learnt")

    def hour(self, number):
        """Looks as both users, and submits."""
        path = f"{self.folder}/jobs.yaml"
        new = {f"q{number}x{place}": draw(self.rng) for place in range(EACH_HOUR)}
        with open(path, "w", encoding="utf-8") as file:
            file.write("jobs:\n" + "".join(job_text(name, job) for name, job in new.items()))
        told = {user: self.look(user, path) for user in (USER, "root")}
        for name, job in new.items():
            run_s = job["hours"] * 3600 * self.rng.uniform(0.1, 0.7)
            options = [f"--account={ACCOUNT}", "--partition=gpu", f"--time={job['hours']}:00:00", "--nodes=1", "--ntasks-per-node=1",
                       f"--cpus-per-task={4 * job['gpus']}", f"--mem={8000 * job['gpus']}", f"--gres=gpu:{job['kind']}:{job['gpus']}"]
            command = ["sbatch", "--parsable", "--job-name=ours", "--chdir=/tmp", "--output=/dev/null", *options,
                       "--wrap", f"sleep {run_s / self.clock.speed:.3f}"]
            at = self.clock.now()
            answer = subprocess.run(command, capture_output=True, text=True, check=False, **as_user(USER))
            if answer.returncode != 0:
                print(answer.stderr.strip(), file=sys.stderr)
                continue
            rows = {user: rows.get(name, {}) for user, (rows, _) in told.items()}
            learnt = {user: learnt for user, (_, learnt) in told.items()}
            self.jobs.append({"name": name, "hour": number, **job, "at": at, "slurm": int(answer.stdout.split(";")[0]),
                              "told": rows, "learnt": learnt, "waited_s": None})

    def read_starts(self):
        """Notes the starts that the accounting knows; returns how many jobs wait."""
        first, last = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) for at in (self.jobs[0]["at"] - 3600, self.clock.now() + 86400))
        command = ["sacct", "-nXP", "-a", "--name=ours", "-o", "JobIDRaw,Start", "-S", first, "-E", last]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        starts = dict(line.split("|") for line in text.splitlines())
        for job in self.jobs:
            start = starts.get(str(job["slurm"]), "")
            if start[:1].isdigit():
                job["waited_s"] = max(0.0, calendar.timegm(time.strptime(start, "%Y-%m-%dT%H:%M:%S")) - job["at"])
        return sum(job["waited_s"] is None for job in self.jobs)


def record(cluster, out, hours, seed, hsched):
    os.environ["TZ"] = "UTC"
    add = ["sacctmgr", "--immediate", "add", "user", USER, f"account={ACCOUNT}"]
    subprocess.run(add, stdout=sys.stderr, check=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        recorder = Recorder(cluster, seed, hsched, folder)
        begin = recorder.clock.now()
        for number in range(hours):
            recorder.clock.wait_until(begin + number * 3600)
            recorder.hour(number)
            print(f"hour {number}: {recorder.read_starts()} wait", file=sys.stderr, flush=True)
            write(out, recorder.jobs)
        end = recorder.clock.now() + MOST_WAIT
        while recorder.read_starts() and recorder.clock.now() < end:
            recorder.clock.wait_until(recorder.clock.now() + LOOK)
        write(out, recorder.jobs)
        for user in (USER, "root"):
            looks = f"{folder}/{user}/state/looks"
            size = sum(entry.stat().st_size for entry in os.scandir(looks)) if os.path.isdir(looks) else 0
            print(f"{user}: {size / 1000:.0f} kB of looks", file=sys.stderr)
    table([out])


def write(out, jobs):
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(job) + "\n" for job in jobs)


def table(paths):
    """Prints how often the estimates for the second half of the jobs were right, by user and method."""
    jobs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            own = [json.loads(line) for line in file]
        jobs += own[len(own) // 2:]
    print("sees,method,jobs,held,within_2,within_3,learnt_used")
    for user in (USER, "root"):
        used = sum(bool((job["learnt"][user] or {}).get("used")) for job in jobs)
        methods = sorted({job["told"][user].get("method") or "none" for job in jobs})
        for method in methods:
            told = [(job["waited_s"], job["told"][user].get("start")) for job in jobs
                    if (job["told"][user].get("method") or "none") == method and job["waited_s"] is not None]
            told = [(wait, start) for wait, start in told if isinstance(start, dict) and start.get("q50_s") is not None]
            held = sum(start["q10_s"] - TOLERANCE <= wait <= start["q90_s"] + TOLERANCE for wait, start in told)
            near = [sum(abs(math.log((wait + TOLERANCE) / (start["q50_s"] + TOLERANCE))) <= math.log(factor) for wait, start in told) for factor in (2, 3)]
            print(f"{'own' if user == USER else 'all'},{method},{len(told)},{held},{near[0]},{near[1]},{used}")


def main():
    what, *rest = sys.argv[1:]
    if what == "record":
        record(rest[0], rest[1], int(rest[2]), int(rest[3]), rest[4])
    else:
        table(rest)


if __name__ == "__main__":
    main()
