"""The links between a job's ranks, checked before its first step by a small all-reduce.

The job script runs it in each rank and reads the last line that it prints: "torch" and "joined" say how far it came,
"ok SPEED" that all is well, "failed REASON" that it is not. Without torch, or if the ranks do not meet in time, nothing
was checked. It stands alone: the program of the user is not loaded.
"""

import datetime
import os
import time

MEGABYTES = 16
REPEATS = 3
# A link is slow that passes less than this part of what the others pass.
SLOW = 0.125
# How a rank learns that another one has failed.
SECONDARY = ("closed by peer", "reset by peer", "broken pipe", "timed out", "timeout", "aborted")


def say(line):
    print(line, flush=True)


def middle(numbers):
    return sorted(numbers)[len(numbers) // 2]


def time_of(action, synchronise):
    """Returns the least time of some runs, after one that sets all up."""
    action()
    times = []
    for _ in range(REPEATS):
        synchronise()
        begin = time.perf_counter()
        action()
        synchronise()
        times.append(time.perf_counter() - begin)
    return min(times)


def check(torch, dist, rank, size, device, synchronise):
    """Returns the speed of the ring in Gbit/s, and what is wrong with this rank's link from the rank before it, if anything."""
    count = MEGABYTES * 2**20 // 4
    data = torch.ones(count, device=device)

    def reduce():
        data.fill_(1.0)
        dist.all_reduce(data)

    reduced = time_of(reduce, synchronise)
    if data[0].item() != size or data[-1].item() != size:
        return 0.0, "an all-reduce gives wrong sums"
    ring = 2 * (size - 1) / size * MEGABYTES * 2**20 * 8 / reduced / 1e9

    sent, received = torch.ones(count, device=device), torch.empty(count, device=device)

    def shift():
        operations = [
            dist.P2POp(dist.isend, sent, (rank + 1) % size),
            dist.P2POp(dist.irecv, received, (rank - 1) % size),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()

    own = torch.tensor([MEGABYTES * 2**20 * 8 / time_of(shift, synchronise) / 1e9], device=device)
    speeds = [torch.zeros_like(own) for _ in range(size)]
    dist.all_gather(speeds, own)
    speeds = [speed.item() for speed in speeds]
    usual = middle(speeds)
    if size > 3 and speeds[rank] < SLOW * usual:
        return ring, (
            f"the link from rank {(rank - 1) % size} to rank {rank} passes {speeds[rank]:.2f} Gbit/s, "
            f"the others {usual:.2f} Gbit/s"
        )
    return ring, None


def main():
    import torch
    import torch.distributed as dist

    say("torch")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    has_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    device, synchronise = torch.device("cpu"), lambda: None
    if has_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        device, synchronise = torch.device("cuda"), torch.cuda.synchronize
        os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
    # The training's own port stays free.
    port = int(os.environ["MASTER_PORT"])
    port = port + 1 if port < 65535 else port - 1
    dist.init_process_group(
        "nccl" if has_gpu else "gloo",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=8),
    )
    say("joined")
    try:
        speed, wrong = check(torch, dist, rank, size, device, synchronise)
    except Exception as error:
        text = " ".join(str(error).split())
        # The rank that failed first should be the one that says so.
        if any(word in text.lower() for word in SECONDARY):
            time.sleep(2.0)
        say(f"failed the all-reduce with the other ranks failed: {type(error).__name__}: {text[:120]}")
        return
    say(f"failed {wrong}" if wrong else f"ok {speed:.2f} Gbit/s")


if __name__ == "__main__":
    main()
