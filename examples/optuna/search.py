#!/usr/bin/env python3
"""Searches for the best learning rate with Optuna, while hsched runs the trials.

    pip install optuna
    python3 examples/optuna/search.py --trials 20 --run "hsched run --devices cpu:2"

Run it from the root of the repository. Without --run, start `hsched watch` (Slurm) beside it. Trials that are worse than
the median of the others after the same epoch are pruned. The study is in optuna.db: an interrupted search continues
when it is started again, and the results that its trials have reached meanwhile are kept.
"""

import argparse
import json
import shlex
import subprocess
import sys

import optuna
from optuna.trial import TrialState

NAME = "digits"  # of the job in job.yaml


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="trials of the study in all")
    parser.add_argument("--parallel", type=int, default=4, help="trials at a time")
    parser.add_argument("--job", default="examples/optuna/job.yaml")
    parser.add_argument("--storage", default="sqlite:///optuna.db")
    parser.add_argument("--hsched", default="hsched", help="the program to call")
    parser.add_argument("--run", help="a command that places the trials, such as: hsched run --devices cpu:2")
    search = Search(parser.parse_args())
    try:
        search.run()
    finally:
        search.stop()
    print("best:", search.study.best_value, search.study.best_params)


class Search:
    def __init__(self, arguments):
        self.arguments = arguments
        self.study = optuna.create_study(
            study_name=NAME, storage=arguments.storage, load_if_exists=True, direction="minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2))
        pipe, hsched = subprocess.PIPE, arguments.hsched
        self.ask = subprocess.Popen([hsched, "ask", arguments.job], stdin=pipe, stdout=pipe, text=True)
        self.tell = subprocess.Popen([hsched, "tell", NAME, "--follow"], stdout=pipe, text=True)
        self.runner = None
        self.trials = {}  # unfinished trials by number; None if an earlier process of this program chose the values
        self.pruned = set()

    def run(self):
        for trial in self.study.get_trials(states=[TrialState.RUNNING]):
            self.submit(trial.number, trial.params)
            self.trials[trial.number] = None
        self.fill()
        for line in self.tell.stdout:
            said = json.loads(line)
            if said["trial"] in self.trials:
                self.hear(**said)
            if not self.trials:
                return

    def fill(self):
        """Adds more trials, up to the number that may run at a time."""
        while len(self.trials) < self.arguments.parallel and len(self.study.trials) < self.arguments.trials:
            trial = self.study.ask()
            parameters = {"lr": trial.suggest_float("lr", 1e-3, 1.0, log=True), "seed": trial.suggest_int("seed", 1, 3)}
            self.trials[trial.number] = trial
            self.submit(trial.number, parameters)
        # `hsched run` ends after its last job, so it is started again for jobs that were added later.
        if self.trials and self.arguments.run and (self.runner is None or self.runner.poll() is not None):
            self.runner = subprocess.Popen(shlex.split(self.arguments.run), stdout=subprocess.DEVNULL)

    def submit(self, number, parameters):
        self.ask.stdin.write(json.dumps({"trial": number, "parameters": parameters}) + "\n")
        self.ask.stdin.flush()
        answer = json.loads(self.ask.stdout.readline())
        if answer["state"] == "refused":
            sys.exit("hsched refused trial {}: {}".format(number, answer["message"]))

    def hear(self, trial, epoch, metric, state):
        """Processes a result of a trial."""
        if state == "running":
            asked = self.trials[trial]
            if asked is not None and metric is not None:
                asked.report(metric, epoch)
                if asked.should_prune() and trial not in self.pruned:
                    self.pruned.add(trial)
                    name = "{}-t{}".format(NAME, trial)
                    subprocess.run([self.arguments.hsched, "cancel", name], stdout=subprocess.DEVNULL)
            return
        del self.trials[trial]
        if state == "completed" and metric is not None:
            self.study.tell(trial, metric)
        elif trial in self.pruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self.study.tell(trial, state=TrialState.FAIL)
        print("trial", trial, state, metric, flush=True)
        self.fill()

    def stop(self):
        self.ask.stdin.close()
        self.tell.terminate()
        self.ask.wait()
        self.tell.wait()
        if self.runner is not None:
            self.runner.wait()


if __name__ == "__main__":
    main()
