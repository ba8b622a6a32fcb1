"""Replicas of several ranks: their members, and the resulting process groups and device meshes."""
from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from .optional import dist, torch

if TYPE_CHECKING:
    from .core import Rank


def join(me: Rank, timeout: datetime.timedelta, backend: str) -> Dict[str, Any]:
    """Gathers the position of each rank in its replica; returns the fields of `Rank` that follow from them, by name. All ranks must call this."""
    places: List[Any] = [None] * me.world_size
    dist.all_gather_object(places, (me.replica, me.replica_rank, me.replica_size), group=me.control)
    members = _members(places, me.replicas)
    sizes = tuple(map(len, members))
    known: Dict[str, Any] = {"replica_sizes": sizes}
    if len(set(sizes)) > 1:
        known["replica_group"] = _own_group(members, me.rank, timeout, backend)
        known["replica_mesh"] = _mesh_of(known["replica_group"], me.device.type)
        return known
    columns = [list(column) for column in zip(*members)]
    mesh = _mesh(me.device.type, sizes)
    if mesh is None:
        known.update(replica_group=_own_group(members, me.rank, timeout, backend), peers=_own_group(columns, me.rank, timeout, backend))
    else:
        group_of = mesh.get_group if hasattr(mesh, "get_group") else mesh.get_dim_groups  # before torch 2.3
        known.update(mesh=mesh, replica_mesh=mesh["inside"], peers=group_of(0), replica_group=group_of(1))
    if me.control is not None:
        known["peers_control"] = _own_group(columns, me.rank, timeout, "gloo")
    return known


def _members(places: List[Tuple[int, int, int]], replicas: int) -> List[List[int]]:
    """Returns the ranks of each replica from the positions that all ranks state; raises ValueError if they contradict each other."""
    members: List[List[int]] = [[] for _ in range(replicas)]
    for rank, (replica, place, _) in enumerate(places):
        if replica >= replicas or place != len(members[replica]) or place > 0 and members[replica][-1] != rank - 1:
            raise ValueError("rank %d is number %d of replica %d, but the ranks of a replica must be neighbours in order" % (rank, place, replica))
        members[replica].append(rank)
    for rank, (replica, _, size) in enumerate(places):
        if size != len(members[replica]):
            raise ValueError("rank %d expects %d ranks in replica %d, which has %d" % (rank, size, replica, len(members[replica])))
    if not all(members):
        raise ValueError("%d replicas have batches, but replica %d has no ranks" % (replicas, members.index([])))
    return members


def _own_group(sets: List[List[int]], rank: int, timeout: datetime.timedelta, backend: str) -> Any:
    """Creates a process group for each set of ranks and returns the one of this rank. All ranks must call this."""
    groups = [dist.new_group(ranks, timeout=timeout, backend=backend) for ranks in sets]
    return next(group for group, ranks in zip(groups, sets) if rank in ranks)


def _mesh(kind: str, sizes: Tuple[int, ...]) -> Any:
    """Returns the mesh of replicas of equal size; None before torch 2.2."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
    except ImportError:
        return None
    return init_device_mesh(kind, (len(sizes), sizes[0]), mesh_dim_names=("replica", "inside"))


def _mesh_of(group: Any, kind: str) -> Any:
    """Returns the mesh of one group; None before torch 2.4."""
    try:
        from torch.distributed.device_mesh import DeviceMesh
        return DeviceMesh.from_group(group, kind)
    except (ImportError, AttributeError):
        return None


def sharded_tensors() -> Any:
    """Returns torch's module with DTensor; None if it has none."""
    if not hasattr(torch.distributed, "device_mesh"):  # before torch 2.2
        return None
    try:
        import torch.distributed.tensor as module
    except ImportError:  # before torch 2.5
        import torch.distributed._tensor as module  # type: ignore[no-redef]
    return module
