"""The clock of a cluster that runs faster than that of the machine, for programs beside it."""
import os
import subprocess
import time


class Clock:
    """The cluster's time, and the variables that make a program use it."""

    def __init__(self, cluster):
        with open(f"{cluster}/etc/clock", encoding="utf-8") as file:
            self.variables = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
        self.speed = float(self.variables["FAKETIME"].split("x")[1])
        self.variables["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        # Other users also use the clock; without its memory, each of their programs would start its own clock.
        semaphore, memory = self.variables["FAKETIME_SHARED"].split()
        for name in (f"sem.{semaphore.removeprefix('/')}", memory.removeprefix("/")):
            os.chmod(f"/dev/shm/{name}", 0o666)
        self.offset = min(self.ask() for _ in range(5))[1]

    def ask(self):
        """Returns how long the answer took, and the difference between the cluster's time and ours times the speed."""
        begin = time.time()
        variables = {**os.environ, **self.variables}
        shown = subprocess.run(["date", "+%s.%N"], env=variables, capture_output=True, text=True, check=True)
        end = time.time()
        return end - begin, float(shown.stdout) - (begin + end) / 2 * self.speed

    def now(self):
        return time.time() * self.speed + self.offset

    def wait_until(self, moment):
        time.sleep(max(0, moment - self.now()) / self.speed)
