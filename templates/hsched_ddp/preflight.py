"""The links between a job's nodes, checked before its first step by a small all-reduce and by one link at a time.

The job script runs this file in each rank with a time limit, and reads the last line that it prints: "torch" and
"joined" say how far it got, "ok SPEED" that all is well, and "failed REASON" that this rank's node is at fault. Without
torch, or if the ranks do not meet in time, nothing is checked. The user's program is not loaded.
"""

import datetime
import os
import socket
import sys
import time

BEGIN = time.monotonic()
MEGABYTES = 16
REPEATS = 3
# The seconds that the transfers may take; with less time left, nothing is checked.
TRANSFERS_S = 10.0
# A link between nodes is slow if its speed is below this fraction of the median speed of all links between nodes.
SLOW = 0.125
# The number of links between nodes from which the usual speed is known.
ENOUGH = 4
# Texts of errors that only show that another rank has failed.
SECONDARY = ("closed by peer", "reset by peer", "broken pipe", "timed out", "timeout", "aborted")


def say(line):
    print(line, flush=True)


def middle(numbers):
    return sorted(numbers)[len(numbers) // 2]


def time_of(action, synchronise):
    """Returns the minimum time of some runs, after a warm-up run."""
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
    """Returns the speed of the ring in Gbit/s, and the fault of this rank's node, if any."""
    count = MEGABYTES * 2**20 // 4
    data = torch.ones(count, device=device)

    def reduce():
        data.fill_(1.0)
        dist.all_reduce(data)

    reduced = time_of(reduce, synchronise)
    if data[0].item() != size or data[-1].item() != size:
        return 0.0, "an all-reduce gives wrong sums"
    ring = 2 * (size - 1) / size * MEGABYTES * 2**20 * 8 / reduced / 1e9

    nodes = [None] * size
    dist.all_gather_object(nodes, socket.gethostname())
    links = [receiver for receiver in range(size) if nodes[receiver - 1] != nodes[receiver]]
    if len(links) < ENOUGH:
        return ring, None
    received, speed = torch.empty(count, device=device), 0.0
    # Each node uses one link at a time, so that a slow link does not slow its neighbours.
    for turn in range(3):
        dist.barrier()
        for receiver in links_of(turn, links):
            sender = (receiver - 1) % size
            if rank == sender:
                time_of(lambda: dist.send(data, receiver), synchronise)
            elif rank == receiver:
                speed = MEGABYTES * 2**20 * 8 / time_of(lambda: dist.recv(received, sender), synchronise) / 1e9
    speeds = [None] * size
    dist.all_gather_object(speeds, speed)
    return ring, slow_node([(nodes[receiver - 1], nodes[receiver], speeds[receiver]) for receiver in links], nodes[rank])


def links_of(turn, links):
    """Returns the links to measure in a turn: every other one; the last of an odd number is measured alone."""
    even = len(links) - len(links) % 2
    return links[turn:even:2] if turn < 2 else links[even:]


def slow_node(links, node):
    """Returns the message about a node if its links are the slow ones; a link is two nodes and a speed.

    The slow node is the one that all slow links share; a single slow link does not show which of its ends is slow.
    """
    usual = middle([speed for _, _, speed in links])
    slow = [link for link in links if link[2] < SLOW * usual]
    if len(slow) < 2 or set.intersection(*({one, other} for one, other, _ in slow)) != {node}:
        return None
    return f"the links of the node pass {max(speed for _, _, speed in slow):.2f} Gbit/s, those between other nodes {usual:.2f} Gbit/s"


def main():
    import torch
    import torch.distributed as dist

    say("torch")
    rank, size, left = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), float(sys.argv[1])
    has_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    device, synchronise = torch.device("cpu"), lambda: None
    if has_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        device, synchronise = torch.device("cuda"), torch.cuda.synchronize
        os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
    # The port of the training itself stays free.
    port = int(os.environ["MASTER_PORT"])
    port = port + 1 if port < 65535 else port - 1
    dist.init_process_group(
        "nccl" if has_gpu else "gloo",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=8),
    )
    # The first all-reduce connects all ranks, which takes long in large jobs; it must not use up the time of the transfers.
    dist.all_reduce(torch.zeros(1, device=device))
    synchronise()
    # Either all ranks take part or none, because an absent rank would look like a hanging one.
    late = torch.tensor([float(time.monotonic() - BEGIN > left - TRANSFERS_S)], device=device)
    dist.all_reduce(late)
    if late.item() > 0:
        dist.destroy_process_group()
        return
    say("joined")
    try:
        speed, wrong = check(torch, dist, rank, size, device, synchronise)
    except Exception as error:
        text = " ".join(str(error).split())
        # The rank that failed first should report it.
        if any(word in text.lower() for word in SECONDARY):
            time.sleep(2.0)
        say(f"failed the all-reduce with the other ranks failed: {type(error).__name__}: {text[:120]}")
        return
    say(f"failed {wrong}" if wrong else f"ok {speed:.2f} Gbit/s")


if __name__ == "__main__":
    main()
