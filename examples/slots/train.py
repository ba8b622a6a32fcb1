#!/usr/bin/env python3
"""A run that uses a core a third of the time, like one that waits for its data: 0.1 s of work, then 0.2 s of sleep."""
import json
import os
import time

EPOCHS, STEPS = int(os.environ.get("HSCHED_EPOCHS", "1")), 12

for epoch in range(int(os.environ.get("HSCHED_EPOCHS_DONE", "0")) + 1, EPOCHS + 1):
    begin = time.monotonic()
    for _ in range(STEPS):
        until = time.process_time() + 0.1
        while time.process_time() < until:
            sum(range(10_000))
        time.sleep(0.2)
    with open(os.environ.get("HSCHED_REPORT", os.devnull), "a", encoding="utf-8") as file:
        file.write(json.dumps({"epoch": epoch, "epoch_s": time.monotonic() - begin}) + "\n")
