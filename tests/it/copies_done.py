"""Counts the steps that the rounds of copies have merged, for the tests of copies."""


def done_steps(rounds):
    """Returns how often each step (its epoch and number) was merged.

    If a round merges nothing, all copies have resumed from the checkpoint: merges after the checkpoint do not count. On a
    busy machine, it is possible that no copy hands in a round in time.
    """
    done = {}
    for before, own in zip(rounds, rounds[1:]):
        if not own["merged"]:
            ranges = [steps for member in own["members"].values() for steps in member["ranges"]] + own["left"]
            left = {(own["epoch"], step) for begin, end in ranges for step in range(begin, end)}
            done = {key: times for key, times in done.items() if key[0] <= own["epoch"] and key not in left}
        for part in own["merged"].values():
            for begin, end in part["ranges"]:
                for step in range(begin, end):
                    done[before["epoch"], step] = done.get((before["epoch"], step), 0) + 1
    return done
