#!/usr/bin/env python3
"""Figs. 9 to 18 and Tables IV and V of the TPDS 2024 paper on JPS and HAS, reproduced with hsched; one command each:

    python3 examples/paper/figures.py fig9 [--hsched hsched] [--seeds 10]

`why12`, `why13` and `why15` change the one thing that is said to be the cause of a difference from the paper. Prints a
table in Markdown. The paper prints speeds of two models on two GPU types, and the lengths of all jobs; all other inputs
are made up here so that the heterogeneity (eq. 35) is the paper's 1.15. So only relative figures can be compared: see
docs/papers.md.
"""
import argparse
import itertools
import json
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

# Samples per epoch, epochs, global batch, MB of gradients, samples/s on V100, P100, T4. Printed in the paper:
# the first three columns of Table III, ResNet18 and VGG19 on V100 and T4.
MODELS: Dict[str, Tuple[int, int, int, float, Tuple[float, float, float]]] = {
    "resnet101": (50000, 200, 512, 170.0, (520, 360, 210)),
    "resnet18": (100000, 200, 512, 46.8, (644, 420, 275)),
    "vgg19": (50000, 200, 512, 80.0, (1754, 1300, 884)),
    "alexnet": (50000, 100, 512, 228.0, (9000, 9000, 8000)),
    "transformer": (36718, 3, 512, 100.0, (1500, 1100, 620)),
}
TYPES = ("v100", "p100", "t4")
Plan = Dict[str, Any]


class Player:
    """Runs hsched on files in a separate folder."""

    def __init__(self, hsched: str, folder: str, seeds: int) -> None:
        self.hsched, self.folder, self.seeds = hsched, Path(folder), seeds

    def json(self, *words: str) -> Dict[str, Any]:
        command = [self.hsched, *words, "--format", "json"]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, check=False)
        return dict(json.loads(done.stdout))

    def cluster(self, counts: Sequence[int]) -> None:
        """Writes cluster.yaml with nodes of at most five GPUs of one type; `counts` are GPUs by type."""
        lines = ["network_gbps: 10", "intra_node_gbps: 300", "nodes:"]
        for name, count in zip(TYPES, counts):
            for first in range(0, count, 5):
                lines.append(f"- {{name: {name}-{first // 5}, gpus: {{{name}: {min(5, count - first)}}}}}")
        (self.folder / "cluster.yaml").write_text("\n".join(lines) + "\n")

    def jobs(self, count: int, error: float = 0.0, seed: int = 0, gpus: Optional[Sequence[int]] = None) -> None:
        """Writes jobs.yaml with the first models, their speeds wrong by up to `error`; `gpus` are fixed GPU counts."""
        draw = random.Random(seed)
        lines = ["jobs:"]
        for number, (name, (samples, epochs, batch, size, speeds)) in enumerate(itertools.islice(MODELS.items(), count)):
            rates = {kind: speed * draw.uniform(1 - error, 1 + error) for kind, speed in zip(TYPES, speeds)}
            fixed = "" if gpus is None else f"gpus: {gpus[number]}, "
            throughput = ", ".join(f"{kind}: {rate:.4f}" for kind, rate in rates.items())
            lines.append(f"- {{name: {name}, {fixed}samples_per_epoch: {samples}, epochs: {epochs}, global_batch: {batch}, "
                         f"model_size: {size}MB, syncs_per_epoch: 1, throughput: {{{throughput}}}, command: x}}")
        (self.folder / "jobs.yaml").write_text("\n".join(lines) + "\n")

    def plan(self, policy: str, *options: str) -> Plan:
        return self.json("plan", "jobs.yaml", "--cluster", "cluster.yaml", "--no-cache", "--no-bound", "--policy", policy, *options)

    def jps(self, samples: int, *options: str) -> List[Plan]:
        """Returns a plan for each seed, because JPS draws at random."""
        return [self.plan("jps", "--samples", str(samples), "--seed", str(seed), *options) for seed in range(self.seeds)]

    def simulate(self, policies: str, *options: str) -> List[Dict[str, Any]]:
        found = self.json("simulate", "--trace", "jobs.yaml", "--cluster", "cluster.yaml", "--no-cache", "--no-bound",
                          "--restart-cost", "0s", "--policy", policies, *options)
        return list(found["policies"])


def average(plans: List[Plan], key: str) -> float:
    return mean(float(plan[key]) for plan in plans)


def show(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    text = lambda cell: f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    print("| " + " | ".join(headings) + " |")
    print("|" + "---|" * len(headings))
    for row in rows:
        print("| " + " | ".join(map(text, row)) + " |")


def even(gpus: int) -> Tuple[int, int, int]:
    """Returns the GPUs by type, as equal as whole nodes of five allow."""
    nodes = gpus // 5
    return 5 * ((nodes + 2) // 3), 5 * ((nodes + 1) // 3), 5 * (nodes // 3)


def schemes(player: Player) -> List[Tuple[str, List[Plan]]]:
    """Returns the plans of all schemes of Fig. 9; `optimal` proves what an exhaustive search would find."""
    jps = [(f"jps, N = {samples}", player.jps(samples)) for samples in (20, 40, 60)]
    names = ["optimus", "optimus-lb"]
    return [(name, [player.plan(name)]) for name in names] + jps + [(name, [player.plan(name)]) for name in ("has", "optimal")]


def static(player: Player, sizes: Sequence[Tuple[str, int, int]], key: str, relative: bool) -> None:
    columns = []
    for _, gpus, jobs in sizes:
        player.cluster(even(gpus))
        player.jobs(jobs)
        found = schemes(player)
        best = average(found[-1][1], key)
        columns.append([(name, average(plans, key) / (best if relative else 1.0)) for name, plans in found])
    rows = [[name, *(column[place][1] for column in columns)] for place, (name, _) in enumerate(columns[0])]
    show(["scheme", *(size[0] for size in sizes)], rows)


WORKERS = [("K = 15", 15, 4), ("K = 30", 30, 4)]
JOBS = [("S = 3", 15, 3), ("S = 4", 15, 4), ("S = 5", 15, 5)]


def fig9(player: Player) -> None:
    """Mean JCT over the optimum."""
    static(player, WORKERS, "mean_jct_s", True)


def fig10(player: Player) -> None:
    """Fairness."""
    static(player, WORKERS, "fairness", False)


def fig11(player: Player) -> None:
    """Mean JCT over the optimum by the number of jobs."""
    static(player, JOBS, "mean_jct_s", True)


def table4(player: Player) -> None:
    """Seconds that a decision takes."""
    static(player, [("S = 4, K = 15", 15, 4), ("S = 4, K = 30", 30, 4), ("S = 3, K = 15", 15, 3), ("S = 5, K = 15", 15, 5)], "solve_s", False)
    player.cluster(even(15))
    player.jobs(4)
    show(["scheme", "S = 4, K = 15"], [["exhaustive", float(player.plan("exhaustive")["solve_s"])]])


def fig12(player: Player) -> None:
    """JPS over the optimum by alpha."""
    player.cluster(even(15))
    player.jobs(4)
    best = float(player.plan("optimal")["mean_jct_s"])
    row = lambda alpha: [alpha, *(average(player.jps(samples, "--alpha", alpha), "mean_jct_s") / best for samples in (20, 40, 60))]
    show(["alpha", "N = 20", "N = 40", "N = 60"], [row(f"{step / 10:.1f}") for step in range(10)])


def fig13(player: Player) -> None:
    """Mean JCT over the optimum and fairness of JPS by beta."""
    player.cluster(even(15))
    player.jobs(4)
    best = float(player.plan("optimal")["mean_jct_s"])
    rows = []
    for beta in ("0", "0.25", "0.5", "0.75", "1"):
        plans = player.jps(60, "--beta", beta)
        rows.append([beta, average(plans, "mean_jct_s") / best, average(plans, "fairness")])
    show(["beta", "mean JCT / optimum", "fairness"], rows)


def fig14(player: Player) -> None:
    """Mean JCT over the optimum by heterogeneity."""
    player.jobs(4)
    rows = []
    for counts in ((2, 5, 8), (5, 5, 5), (9, 4, 2), (12, 2, 1)):
        player.cluster(counts)
        best = player.plan("optimal")
        over = lambda plans: average(plans, "mean_jct_s") / float(best["mean_jct_s"])
        rows.append([float(best["heterogeneity"]), float(best["mean_jct_s"]), over([player.plan("optimus")]), over([player.plan("optimus-lb")]),
                     over(player.jps(60)), over([player.plan("has")])])
    show(["H", "optimum, s", "optimus", "optimus-lb", "jps, N = 60", "has"], rows)


def true_jct(plan: Plan) -> float:
    """Returns the mean JCT, at the right speeds, of a plan that was computed with wrong speeds."""
    times = []
    for job in plan["jobs"]:
        speeds = dict(zip(TYPES, MODELS[job["name"]][4]))
        compute = max(rank["samples"] / speeds[rank["type"]] for rank in job["ranks"])
        times.append((compute + job["comm_s"]) * MODELS[job["name"]][1])
    return mean(times)


def fig15(player: Player) -> None:
    """Mean JCT with wrong speeds over that with right ones."""
    player.cluster(even(15))
    rows = []
    first: Dict[str, float] = {}
    for percent in (0, 10, 20, 30):
        row: List[Any] = [f"{percent} %"]
        for policy in ("optimus", "optimus-lb", "jps", "has", "optimal"):
            times = []
            for seed in range(player.seeds):
                player.jobs(4, percent / 100, seed)
                times.append(true_jct(player.plan(policy, *(["--seed", str(seed)] if policy == "jps" else []))))
            row.append(mean(times) / first.setdefault(policy, mean(times)))
        rows.append(row)
    show(["error up to", "optimus", "optimus-lb", "jps, N = 60", "has", "optimal"], rows)


def by_workers(player: Player, key: str) -> None:
    player.jobs(4)
    rows = []
    for gpus in (50, 100, 200, 300):
        player.cluster(even(gpus))
        has = [float(player.plan("has")[key])] if gpus <= 100 else ["-"]
        jps = average([player.plan("jps", "--samples", "40", "--seed", str(seed)) for seed in range(min(player.seeds, 3))], key)
        rows.append([gpus, float(player.plan("optimus")[key]), float(player.plan("optimus-lb")[key]), jps, *has, float(player.plan("optimal")[key])])
    show(["K", "optimus", "optimus-lb", "jps, N = 40", "has", "optimal"], rows)


def fig16(player: Player) -> None:
    """Mean JCT in seconds by the number of GPUs."""
    by_workers(player, "mean_jct_s")


def table5(player: Player) -> None:
    """Seconds that a decision takes by the number of GPUs."""
    by_workers(player, "solve_s")


def fig17(player: Player) -> None:
    """What planning again at each completion brings, and Gavel."""
    player.cluster(even(15))
    player.jobs(4)
    again = {entry["policy"]: entry for entry in player.simulate("optimus,optimus-lb,jps,has,optimal")}
    player.jobs(4, gpus=(5, 5, 5, 5))
    gavel = player.simulate("gavel-max-min")[0]
    player.jobs(4)
    rows: List[List[Any]] = []
    for name, entry in again.items():
        once = player.plan(name)
        rows.append([name, float(once["mean_jct_s"]), float(entry["mean_jct_s"]), 1 - entry["mean_jct_s"] / once["mean_jct_s"],
                     1 - entry["makespan_s"] / once["makespan_s"]])
    rows.append(["gavel-max-min, 5 GPUs each", "-", float(gavel["mean_jct_s"]), "-", "-"])
    show(["scheme", "once, mean JCT s", "at each completion", "mean JCT less", "makespan less"], rows)
    has = again["has"]
    print(f"\nhas against Gavel: mean JCT {1 - has['mean_jct_s'] / gavel['mean_jct_s']:.1%} less, makespan {1 - has['makespan_s'] / gavel['makespan_s']:.1%} less")


def fig18(player: Player) -> None:
    """Gavel's mean JCT in seconds by the number of GPUs that one job requests; the others request five."""
    player.cluster(even(15))
    rows = []
    for job, name in enumerate(itertools.islice(MODELS, 4)):
        row: List[Any] = [name]
        for count in range(1, 6):
            player.jobs(4, gpus=[count if place == job else 5 for place in range(4)])
            row.append(float(player.simulate("gavel-max-min")[0]["mean_jct_s"]))
        rows.append(row)
    show(["job", *(f"{count} GPUs" for count in range(1, 6))], rows)


def best_alpha(player: Player) -> float:
    """The alpha at which JPS (N = 60) has the least mean JCT on the present jobs."""
    alphas = [step / 10 for step in range(10)]
    return min(alphas, key=lambda alpha: average(player.jps(60, "--alpha", f"{alpha:.1f}"), "mean_jct_s"))


def why12(player: Player) -> None:
    """Fig. 12 with other jobs: speeds drawn within 40 % of those here. Where the best alpha lies."""
    player.cluster(even(15))
    counts: Dict[float, int] = {}
    for seed in range(20):
        player.jobs(4, 0.4, seed)
        alpha = best_alpha(player)
        counts[alpha] = counts.get(alpha, 0) + 1
    show(["best alpha", "of 20 sets of jobs"], [[alpha, count] for alpha, count in sorted(counts.items())])


def why13(player: Player) -> None:
    """Fig. 13 with jobs that are alike: lengths between those here (0) and all equal (1)."""
    player.cluster(even(15))
    own = dict(MODELS)
    hours = {name: samples * epochs / speeds[0] / 3600 for name, (samples, epochs, _, _, speeds) in own.items()}
    middle = mean(list(hours.values())[:4])
    rows = []
    for alike in (0.0, 0.5, 1.0):
        for name, (samples, epochs, batch, size, speeds) in own.items():
            MODELS[name] = (round(samples * (middle / hours[name]) ** alike), epochs, batch, size, speeds)
        player.jobs(4)
        ends = [player.jps(60, "--beta", beta) for beta in ("0", "1")]
        jct, fairness = ([average(plans, key) for plans in ends] for key in ("mean_jct_s", "fairness"))
        rows.append([alike, f"{1 - jct[1] / jct[0]:.1%}", *fairness])
    MODELS.update(own)
    show(["alike", "mean JCT less from beta = 0 to 1", "fairness at 0", "at 1"], rows)


def why15(player: Player) -> None:
    """Fig. 15, errors up to 30 %, where Optimus is far from the optimum and where it is near."""
    rows = []
    for counts in ((5, 5, 5), (9, 4, 2), (12, 2, 1)):
        player.cluster(counts)
        player.jobs(4)
        right = {policy: float(player.plan(policy)["mean_jct_s"]) for policy in ("optimus", "optimal")}
        ratios: Dict[str, List[float]] = {"optimus": [], "optimal": []}
        for seed in range(5 * player.seeds):
            player.jobs(4, 0.3, seed)
            for policy, list_of in ratios.items():
                list_of.append(true_jct(player.plan(policy)) / right[policy])
        better = lambda policy: f"{sum(ratio < 0.9999 for ratio in ratios[policy])} of {len(ratios[policy])}"
        rows.append(["-".join(map(str, counts)), right["optimus"] / right["optimal"], mean(ratios["optimus"]), better("optimus"), mean(ratios["optimal"]), better("optimal")])
    show(["V100-P100-T4", "optimus over the optimum", "wrong over right", "better plans", "optimal: wrong over right", "better plans"], rows)


FIGURES: Dict[str, Callable[[Player], None]] = {
    own.__name__: own
    for own in (fig9, fig10, fig11, fig12, fig13, fig14, fig15, fig16, fig17, fig18, table4, table5, why12, why13, why15)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="+", choices=[*FIGURES, "all"])
    parser.add_argument("--hsched", default="hsched")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    names = list(FIGURES) if "all" in arguments.figure else arguments.figure
    for name in names:
        print(f"\n**{name}** {FIGURES[name].__doc__}\n")
        with tempfile.TemporaryDirectory() as folder:
            hsched = arguments.hsched if "/" not in arguments.hsched else str(Path(arguments.hsched).resolve())
            FIGURES[name](Player(hsched, folder, arguments.seeds))


if __name__ == "__main__":
    main()
