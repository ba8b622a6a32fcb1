"""Whole programs as hsched starts them: a process for each rank, with hsched's variables and the modules that this process has imported."""
import json
import os
import pickle
import select
import signal
import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from world import LIMIT_S, free_port


class Ended(NamedTuple):
    """How a rank ended."""

    status: int  # its exit status
    result: Any  # the program's result
    said: str  # its standard output and error


def run(program: Callable[[], Any], shares: Sequence[int], folder: str, micro: Optional[Sequence[int]] = None, sizes: Optional[Sequence[int]] = None,
        **variables: Any) -> List[Ended]:
    """Runs a program on ranks with these shares; returns how each ended. `variables` are set as HSCHED_NAME.

    With `sizes`, shares are those of replicas with these numbers of ranks.
    """
    port, children = free_port(), []
    places = [(replica, place) for replica, size in enumerate(sizes or [1] * len(shares)) for place in range(size)]
    for rank, (replica, place) in enumerate(places):
        source, sink = os.pipe()
        errors, other = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(other, 1)  # standard output is for the cases' answers
            os.dup2(other, 2)
            own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(places), "LOCAL_WORLD_SIZE": len(places), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "CUDA_VISIBLE_DEVICES": "", "HSCHED_GLOBAL_BATCH": sum(shares), "HSCHED_BATCHES": ",".join(map(str, shares)),
                   "HSCHED_LOCAL_BATCH": shares[replica], "HSCHED_MICRO_BATCH": (micro or shares)[replica],
                   "HSCHED_CHECKPOINT_DIR": os.path.join(folder, "checkpoints"), "HSCHED_RUN": "run", "HSCHED_REPORT": os.path.join(folder, "rank-%d.jsonl" % rank)}
            if sizes:
                own.update(HSCHED_REPLICA=replica, HSCHED_REPLICA_RANK=place, HSCHED_REPLICA_SIZE=sizes[replica])
            own.update({"HSCHED_" + name: value for name, value in variables.items()})
            _work(program, own, sink)
        os.close(sink)
        os.close(other)
        children.append((child, source, errors))
    texts = _read_all([own for _, source, errors in children for own in (source, errors)])
    ended = []
    for (child, source, errors) in children:
        _, status = os.waitpid(child, 0)
        own = pickle.loads(texts[source]) if texts[source] else {"status": status or 1, "result": None}
        ended.append(Ended(own["status"], own["result"], texts[errors].decode(errors="replace")))
    if os.environ.get("TRACE"):
        for own in ended:
            print(own.status, own.said, file=sys.stderr)
    return ended


def _read_all(sources: List[int]) -> Dict[int, bytes]:
    """Reads pipes until all are closed."""
    texts = {own: b"" for own in sources}
    left = list(sources)
    while left:
        for own in select.select(left, [], [])[0]:
            more = os.read(own, 1 << 16)
            texts[own] += more
            if not more:
                left.remove(own)
                os.close(own)
    return texts


def _work(program: Callable[[], Any], variables: Dict[str, Any], sink: int) -> None:
    """Runs a program as one rank, and ends this process."""
    signal.alarm(int(LIMIT_S))
    for name in list(os.environ):
        if name.startswith(("HSCHED_", "SLURM_")):
            del os.environ[name]
    os.environ.update({name: str(value) for name, value in variables.items()})
    status, result = 0, None
    try:
        result = program()
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(sink, "wb") as file:
        pickle.dump({"status": status, "result": result}, file)
    os._exit(0)


def reports(folder: str, rank: int = 0) -> List[Dict[str, Any]]:
    """Returns the reports of a rank."""
    path = os.path.join(folder, "rank-%d.jsonl" % rank)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]
