#!/usr/bin/env python3
"""A stand-in for a training program: it computes nothing but takes the time that its GPU would take.

It reads the variables that hsched gives to every rank, and does with them what a real training has to do: meet
the other ranks at MASTER_ADDR:MASTER_PORT after every step, report every epoch, save and exit 85 on SIGUSR1, and
continue from there when it is started again. Python 3.6 or later; the standard library is enough.
"""
import argparse
import json
import os
import re
import selectors
import signal
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

SAVED = 85  # the exit status of a rank that saved its state and should be resumed
Speed = Tuple[float, float]  # seconds per step, and seconds per sample on top


def parse_speed(text: str) -> Tuple[str, Speed]:
    """Reads "v100=644" (samples/s) or "t4=80ms+4.21ms" (per step, and per sample)."""
    match = re.match(r"([^=]+)=(?:([0-9.eE+-]+)|([0-9.eE-]+)ms\+([0-9.eE-]+)ms)$", text)
    try:
        if match and match.group(2) and float(match.group(2)) > 0:
            return match.group(1), (0.0, 1 / float(match.group(2)))
        if match and match.group(3):
            return match.group(1), (float(match.group(3)) / 1000, float(match.group(4)) / 1000)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError("expected TYPE=SAMPLES_PER_SECOND or TYPE=ALPHAms+BETAms, not %r" % text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--speed", action="append", default=[], type=parse_speed, metavar="TYPE=SPEED",
                        help="speed of a GPU type: samples/s (v100=644), or time per step and sample (t4=80ms+4.21ms)")
    parser.add_argument("--samples-per-epoch", type=int, required=True)
    parser.add_argument("--steps-per-epoch", type=int, help="whole steps instead of the number that the samples need")
    parser.add_argument("--sync-seconds", type=float, default=0.0, help="time per step that the exchange takes")
    parser.add_argument("--fail-at-epoch", type=int, help="the last rank exits with status 1 in this epoch")
    return parser.parse_args()


class Rank:
    """The environment of this rank."""

    def __init__(self, env: Dict[str, str], speeds: Dict[str, Speed]) -> None:
        try:
            self.rank, self.world_size = int(env["RANK"]), int(env["WORLD_SIZE"])
            self.local_rank = int(env["LOCAL_RANK"])
            self.address = (env["MASTER_ADDR"], int(env["MASTER_PORT"]))
            self.job, self.gpu_type = env["HSCHED_JOB"], env["HSCHED_GPU_TYPE"]
            self.run, self.plan = env["HSCHED_RUN"], env["HSCHED_PLAN"]
            self.batch, self.global_batch = int(env["HSCHED_LOCAL_BATCH"]), int(env["HSCHED_GLOBAL_BATCH"])
            self.batches = [int(b) for b in env["HSCHED_BATCHES"].split(",")]
            # Without replicas, each rank is a replica.
            self.replica, self.replica_rank = int(env.get("HSCHED_REPLICA", self.rank)), int(env.get("HSCHED_REPLICA_RANK", 0))
            self.epochs, self.epochs_done = int(env["HSCHED_EPOCHS"]), int(env["HSCHED_EPOCHS_DONE"])
            self.checkpoint = os.path.join(env["HSCHED_CHECKPOINT_DIR"], "stand-in.json")
            self.report = env["HSCHED_REPORT"]
        except KeyError as error:
            sys.exit("stand-in: %s is not set; run this program in an hsched job" % error)
        except ValueError as error:
            sys.exit("stand-in: a variable is not a number: %s" % error)
        if self.gpu_type not in speeds:
            sys.exit("stand-in: there is no --speed for GPU type %s" % self.gpu_type)
        alpha, beta = speeds[self.gpu_type]
        self.step_s = alpha + beta * self.batch
        self.node = env.get("SLURMD_NODENAME", socket.gethostname())
        devices = env.get("CUDA_VISIBLE_DEVICES", "").split(",")
        self.device = (devices[self.local_rank] if self.local_rank < len(devices) else "") or "none"


class Stopped(Exception):
    """The signal came before there was anything to save."""


class Ring:
    """The ranks' meeting point: rank 0 listens, the others connect."""

    def __init__(self, me: Rank, stop: List[int], timeout_s: float = 60.0) -> None:
        self.me = me
        self.stop = stop
        self.peers = {}  # type: Dict[int, socket.socket]
        facts = {"stand-in": me.run, "plan": me.plan, "rank": me.rank, "world_size": me.world_size,
                 "replica": me.replica, "replica_rank": me.replica_rank, "batch": me.batch,
                 "global_batch": me.global_batch, "batches": me.batches, "epochs_done": me.epochs_done, "step_s": me.step_s}
        self.step_s = me.step_s  # of the slowest rank
        if me.rank == 0:
            problem = self._listen(facts, time.monotonic() + timeout_s)
            for peer in self.peers.values():
                send(peer, {"problem": problem, "step_s": self.step_s})
        else:
            self.peers[0] = self._connect(time.monotonic() + timeout_s)
            try:
                send(self.peers[0], facts)
                answer = receive(self.peers[0], 2 * timeout_s)
            except (OSError, ValueError) as error:
                if stop:
                    raise Stopped()
                sys.exit("stand-in: rank %d: no answer from rank 0: %s" % (me.rank, error))
            problem, self.step_s = answer["problem"], answer["step_s"]
        if problem:
            sys.exit("stand-in: rank %d: %s" % (me.rank, problem))
        for peer in self.peers.values():
            peer.settimeout(None)

    def _listen(self, mine: Dict[str, Any], deadline: float) -> Optional[str]:
        """Waits for all ranks; returns what is wrong with them, or None."""
        facts = [mine]
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("", self.me.address[1]))
            except OSError as error:
                return "rank 0 cannot listen on MASTER_PORT %d: %s" % (self.me.address[1], error)
            server.listen(1024)
            while len(facts) < self.me.world_size:
                server.settimeout(0.2)
                try:
                    peer, _ = server.accept()
                except socket.timeout:
                    if self.stop:
                        raise Stopped()
                    if time.monotonic() < deadline:
                        continue
                    missing = set(range(self.me.world_size)) - {f["rank"] for f in facts}
                    return "WORLD_SIZE is %d, but ranks %s did not come" % (self.me.world_size, sorted(missing)[:10])
                try:
                    fact = receive(peer, 10)
                    if fact.get("stand-in") != self.me.run:
                        raise ConnectionError("not a rank of this run")
                except (OSError, ValueError, AttributeError):
                    peer.close()  # another process that tried the port
                    continue
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if fact["rank"] in self.peers or fact["rank"] == 0:
                    problem = "two processes say that they are rank %d" % fact["rank"]
                    send(peer, {"problem": problem, "step_s": 0})
                    return problem
                self.peers[fact["rank"]] = peer
                facts.append(fact)
                self.step_s = max(self.step_s, fact["step_s"])
        return check(sorted(facts, key=lambda f: f["rank"]))

    def _connect(self, deadline: float) -> socket.socket:
        while True:
            try:
                peer = socket.create_connection(self.me.address, timeout=10)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return peer
            except OSError as error:
                if self.stop:
                    raise Stopped()
                if time.monotonic() > deadline:
                    sys.exit("stand-in: rank %d cannot reach rank 0 at %s:%d: %s" % ((self.me.rank,) + self.me.address + (error,)))
                time.sleep(0.05)

    def meet(self, stopping: bool) -> bool:
        """Waits until all ranks have arrived; returns whether one of them was asked to stop."""
        if self.me.rank == 0:
            with selectors.DefaultSelector() as waiting:
                for rank, peer in self.peers.items():
                    waiting.register(peer, selectors.EVENT_READ, rank)
                while waiting.get_map():
                    for key, _ in waiting.select():
                        stopping |= read_flag(key.fileobj, key.data)
                        waiting.unregister(key.fileobj)
            for rank, peer in self.peers.items():
                write_flag(peer, stopping, rank)
            return stopping
        write_flag(self.peers[0], stopping, 0)
        return read_flag(self.peers[0], 0)


def check(facts: List[Dict[str, Any]]) -> Optional[str]:
    """Returns the contradiction between the ranks, or None."""
    if [f["rank"] for f in facts] != list(range(len(facts))):
        return "the ranks are %s, not 0 to %d" % ([f["rank"] for f in facts], len(facts) - 1)
    for key in ("world_size", "global_batch", "batches", "plan", "epochs_done"):
        if any(f[key] != facts[0][key] for f in facts):
            return "the ranks differ in %s: %s" % (key, [f[key] for f in facts])
    places = [(f["replica"], f["replica_rank"]) for f in facts]
    if places != sorted(set(places)) or len(facts[0]["batches"]) != places[-1][0] + 1:
        return "the ranks are in replicas %s, and there are %d batches" % (places, len(facts[0]["batches"]))
    if any(f["batch"] != facts[0]["batches"][f["replica"]] for f in facts):
        return "HSCHED_BATCHES says %s, the ranks have %s" % (facts[0]["batches"], [f["batch"] for f in facts])
    if sum(facts[0]["batches"]) != facts[0]["global_batch"]:
        return "the batches %s do not sum to the global batch %d" % (facts[0]["batches"], facts[0]["global_batch"])
    return None


def send(peer: socket.socket, message: Dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    peer.sendall(struct.pack("!I", len(data)) + data)


def receive(peer: socket.socket, timeout_s: float) -> Dict[str, Any]:
    peer.settimeout(timeout_s)

    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = peer.recv(count - len(data))
            if not part:
                raise ConnectionError("the connection was closed")
            data += part
        return data

    length = struct.unpack("!I", exactly(4))[0]
    if length > 1 << 24:
        raise ConnectionError("unexpected message, not from a rank")
    message = json.loads(exactly(length).decode())
    return message  # type: ignore[no-any-return]


def read_flag(peer: Any, rank: int) -> bool:
    try:
        data = peer.recv(1)
    except OSError:
        data = b""
    if not data:
        sys.exit("stand-in: rank %d is gone" % rank)
    return bool(data[0])


def write_flag(peer: socket.socket, flag: bool, rank: int) -> None:
    try:
        peer.sendall(bytes([flag]))
    except OSError:
        sys.exit("stand-in: rank %d is gone" % rank)


def load(me: Rank) -> Tuple[int, int]:
    """Returns where to resume: the epoch (from 1) and how many of its steps are done."""
    try:
        with open(me.checkpoint) as file:
            saved = json.load(file)
    except FileNotFoundError:
        return me.epochs_done + 1, 0
    # The checkpoint of an epoch that has ended, or of steps of another size, is of no use.
    if saved["epoch"] != me.epochs_done + 1 or saved["global_batch"] != me.global_batch:
        return me.epochs_done + 1, 0
    return saved["epoch"], saved["step"]


def save(me: Rank, epoch: int, step: int) -> None:
    """Replaces the checkpoint as a whole, so that a crash leaves the old one."""
    temporary = "%s.%d.tmp" % (me.checkpoint, os.getpid())
    with open(temporary, "w") as file:
        json.dump({"epoch": epoch, "step": step, "global_batch": me.global_batch, "plan": me.plan}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, me.checkpoint)


def block_sizes(me: Rank, samples: int, steps: Optional[int]) -> List[int]:
    """Returns the global batch of every step of an epoch; the last one may be smaller."""
    if samples < 1 or (steps is not None and steps < 1):
        sys.exit("stand-in: an epoch needs at least one sample and one step")
    if steps is not None:
        return [me.global_batch] * steps
    full, rest = divmod(samples, me.global_batch)
    return [me.global_batch] * full + ([rest] if rest else [])


def share(me: Rank, block: int) -> int:
    """Returns this rank's samples of a step, which are those of its replica: the shares of all replicas sum to the block exactly."""
    before = sum(me.batches[:me.replica])
    return (before + me.batch) * block // me.global_batch - before * block // me.global_batch


def sleep_until(deadline: float) -> None:
    left = deadline - time.monotonic()
    if left > 0:
        time.sleep(left)


def report(me: Rank, epoch: int, samples: int, compute_s: float, epoch_s: float) -> None:
    """Reports an epoch; in a replica, only the first rank reports."""
    if me.replica_rank != 0:
        return
    line = {"epoch": epoch, "rank": me.rank, "samples": samples, "compute_s": round(compute_s, 6), "epoch_s": round(epoch_s, 6),
            "batch": me.batch, "metrics": {"loss": round(2 / (1 + epoch), 6)}}
    with open(me.report, "a") as file:
        file.write(json.dumps(line) + "\n")


def train_epoch(me: Rank, ring: Ring, epoch: int, first_step: int, blocks: List[int], sync_s: float, stop: List[int]) -> Optional[int]:
    """Runs the steps of an epoch and reports it; returns the number of steps done if the ranks are to stop."""
    began = begin = time.monotonic()
    compute_s, samples, stopping = 0.0, 0, False
    for step in range(first_step, len(blocks)):
        part = blocks[step] / me.global_batch  # the short last step takes its part of a whole one
        wanted = me.step_s * part
        sleep_until(begin + wanted)
        # The time that the GPU would have measured. A late wake-up is caused by this machine and is not part
        # of it.
        compute_s += wanted
        samples += share(me, blocks[step])
        stopping = ring.meet(bool(stop))
        # The next step counts from the planned end of this one, so that delays do not add up; after a long
        # pause, it counts from a second (or a step, if that is longer) before now.
        begin += ring.step_s * part + sync_s
        begin = max(begin, time.monotonic() - max(1.0, ring.step_s))
        if stopping and step + 1 < len(blocks):
            return step + 1
    sleep_until(begin)  # the last exchange
    epoch_s = time.monotonic() - began
    # Rank 0 reports last, because its line marks the epoch as done.
    if me.rank != 0:
        report(me, epoch, samples, compute_s, epoch_s)
    stopping |= ring.meet(bool(stop))
    if me.rank == 0:
        report(me, epoch, samples, compute_s, epoch_s)
        print("stand-in: epoch %d of %d took %.3f s" % (epoch, me.epochs, epoch_s), flush=True)
    return len(blocks) if stopping else None


def main() -> int:
    stop = []  # type: List[int]
    signal.signal(signal.SIGUSR1, lambda number, _: stop.append(number))
    arguments = parse_arguments()
    me = Rank(dict(os.environ), dict(arguments.speed))
    print("stand-in: rank %d of %d on %s: %s, device %s, batch %d of %d" % (
        me.rank, me.world_size, me.node, me.gpu_type, me.device, me.batch, me.global_batch), flush=True)

    try:
        ring = Ring(me, stop)
    except Stopped:
        return SAVED
    blocks = block_sizes(me, arguments.samples_per_epoch, arguments.steps_per_epoch)
    first_epoch, first_step = load(me)
    ring.meet(False)  # no rank replaces the checkpoint before all have read it
    for epoch in range(first_epoch, me.epochs + 1):
        if arguments.fail_at_epoch == epoch and me.rank == me.world_size - 1:
            sys.exit("stand-in: rank %d fails in epoch %d, as it was told" % (me.rank, epoch))
        done = train_epoch(me, ring, epoch, first_step, blocks, arguments.sync_seconds, stop)
        first_step = 0
        if done is not None and not (epoch == me.epochs and done == len(blocks)):
            if me.rank == 0:
                save(me, epoch + done // len(blocks), done % len(blocks))
                print("stand-in: saved in epoch %d after step %d of %d" % (epoch, done, len(blocks)), flush=True)
            ring.meet(True)  # the others leave when it is saved
            return SAVED
    return 0


if __name__ == "__main__":
    sys.exit(main())
