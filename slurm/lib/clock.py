"""Frees the lock of a fast cluster's clock when it is stuck.

Every program with this clock takes the lock for some microseconds when it starts. It is a semaphore, which
the kernel does not give back: a program that is killed at that moment keeps it, and every later one waits forever.

usage: clock.py SEMAPHORE
"""

import ctypes
import sys
import time

LOOK = 0.1
STUCK_LOOKS = 10


def main():
    lib = ctypes.CDLL(None, use_errno=True)
    lib.sem_open.restype = ctypes.c_void_p
    lock = lib.sem_open(sys.argv[1].encode(), 0)
    if not lock:
        sys.exit(f"no semaphore {sys.argv[1]}: errno {ctypes.get_errno()}")
    lock = ctypes.c_void_p(lock)
    value = ctypes.c_int()
    taken = 0
    while True:
        time.sleep(LOOK)
        lib.sem_getvalue(lock, ctypes.byref(value))
        # A process that had only been stopped also gives it back.
        if value.value > 1:
            lib.sem_trywait(lock)
        taken = taken + 1 if value.value <= 0 else 0
        if taken == STUCK_LOOKS:
            lib.sem_post(lock)
            print(f"{time.strftime('%F %T')} freed the clock's lock, which a stopped program held", flush=True)
            taken = 0


main()
