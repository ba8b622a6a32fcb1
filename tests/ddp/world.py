"""Real ranks for tests: one process each, over gloo, as worlds of any shares, and one process that does the same alone."""
import datetime
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "templates"))
import torch  # noqa: E402  # before ranks are forked, which saves each of them seconds
if hasattr(torch, "compile"):
    import torch._dynamo  # noqa: E402,F401  # which every optimizer imports otherwise
import hsched_ddp  # noqa: E402

TIMEOUT_S = 300.0
"""Maximum wait of a rank for another one: long enough for a busy machine, but a hang becomes an error."""

LIMIT_S = 900.0
"""Time limit of a case."""


class World:
    """This process in all worlds: as a rank of each world with enough ranks, and as a single process."""

    def __init__(self, hsched: Any, torch: Any, me: Any, folder: str) -> None:
        self.hsched, self.torch, self.me, self.folder = hsched, torch, me, folder
        ranks = range(1, me.world_size + 1)
        self._groups = {size: torch.distributed.new_group(list(range(size)), datetime.timedelta(seconds=TIMEOUT_S), "gloo") for size in ranks}

    def rank(self, shares: Sequence[int], micro: Optional[Sequence[int]] = None, **more: Any) -> Any:
        """Returns this process as a rank with a share of each global batch; None if it is none of these ranks."""
        if self.me.rank >= len(shares):
            return None
        size = (micro or shares)[self.me.rank]
        return self.hsched.replace(self.me, world_size=len(shares), batches=tuple(shares), micro_batch=size, group=self._groups[len(shares)], **more)

    def alone(self, batch: int, **more: Any) -> Any:
        """Returns the first process as the only rank; None in others."""
        return self.rank((batch,), **more)

    def wrapped(self, model: Any, me: Any, **options: Any) -> Any:
        return self.torch.nn.parallel.DistributedDataParallel(model, process_group=me.group, **options)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def difference(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Returns the largest difference between tensors, relative to the largest value of the second ones."""
    scale = max(float(own.detach().abs().max()) for own in wanted)
    return max(float((one.detach() - other.detach()).abs().max()) for one, other in zip(got, wanted)) / max(scale, 1e-300)


def run(cases: Sequence[Callable[[World], Optional[float]]], ranks: int, limit_s: float = LIMIT_S) -> List[Dict[str, Any]]:
    """Runs cases on real ranks, each case in processes of its own; returns name, figure and problem of each."""
    answers = []
    for case in cases:
        answer = _run_in_a_folder(case, ranks, limit_s)
        for _ in range(2):
            # Another program may take the free port before the ranks do.
            if "already in use" in (answer["problem"] or ""):
                answer = _run_in_a_folder(case, ranks, limit_s)
        answers.append(answer)
    return answers


def _run_in_a_folder(case: Callable[[World], Optional[float]], ranks: int, limit_s: float) -> Dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="hsched-ddp-")
    try:
        return _run(case, ranks, folder, limit_s)
    finally:
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _run(case: Callable[[World], Optional[float]], ranks: int, folder: str, limit_s: float) -> Dict[str, Any]:
    port = free_port()
    children: Dict[int, Tuple[int, int]] = {}
    for rank in range(ranks):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            _work(case, rank, ranks, port, folder, sink, limit_s)
        os.close(sink)
        children[child] = (rank, source)
    answer: Dict[str, Any] = {"name": case.__name__, "figure": None, "problem": None}
    left = set(children)
    while left:
        child, status = os.wait()
        if child not in left:
            continue
        left.discard(child)
        text = os.fdopen(children[child][1]).read()
        own = json.loads(text) if text else {"problem": "rank %d died (%d)" % (children[child][0], status)}
        if own.get("problem") and answer["problem"] is None:
            answer["problem"] = own["problem"]
            for other in left:  # they would wait for it
                os.kill(other, 9)
        if own.get("figure") is not None:
            answer["figure"] = max(answer["figure"] or 0.0, own["figure"])
    return answer


def _work(case: Callable[[World], Optional[float]], rank: int, ranks: int, port: int, folder: str, sink: int, limit_s: float) -> None:
    """Runs a case as one rank, and ends this process."""
    signal.alarm(int(limit_s))
    answer: Dict[str, Any] = {}
    try:
        for name in list(os.environ):
            if name.startswith("HSCHED_"):
                del os.environ[name]
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), CUDA_VISIBLE_DEVICES="",
                          HSCHED_CHECKPOINT_DIR=os.path.join(folder, "checkpoints"))
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        me = hsched_ddp.init(global_batch=ranks, timeout_s=TIMEOUT_S)
        answer["figure"] = case(World(hsched_ddp, torch, me, folder))
        torch.distributed.barrier()
    except BaseException as error:  # pylint: disable=broad-except
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        answer = {"problem": "rank %d: %s (%s:%d)" % (rank, text, place.filename, place.lineno or 0)}
        if os.environ.get("TRACE"):
            traceback.print_exc()
    sys.stderr.flush()
    os.write(sink, json.dumps(answer).encode())
    os._exit(0)
