"""A program that never closes its client, and appends once more when the interpreter ends."""

AT_EXIT = """
import atexit
import os

def append_late():  # registered first, so it runs after every other handler, ZeroMQ's among them
    try:
        writer.append_many([b"late" * 100_000])
    except zbk.ClientClosedError:
        print("closed")
    except zbk.ForkedProcessError:
        pass  # the child, whose parent's client goes on

atexit.register(append_late)

import zbk

client = zbk.connect()
writer = client.create_ledger()
if os.environ["HOW"] == "pending":
    futures = [writer.append_many([b"x" * 1_000] * 1_000) for _ in range(50)]
elif os.environ["HOW"] == "fork" and os.fork() == 0:
    raise SystemExit
else:
    writer.append_many([b"x" * 100_000]).result(30)
    if os.environ["HOW"] == "fork":
        os.wait()
print("end")
"""
