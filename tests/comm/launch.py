#!/usr/bin/env python3
"""Starts processes as torchrun does, on this machine: launch.py COUNT PROGRAM [ARGUMENT]... Fails if one of them does.
Exits with 77, which means skipped to CTest, if all of them do."""
import os
import socket
import subprocess
import sys

SKIPPED = 77


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(count, command, **options):
    """The processes, by rank."""
    port = str(free_port())
    # A process that MPI's launcher started would join that one's ranks.
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI_", "PMIX_"))}
    return [subprocess.Popen(command, env=bare | {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank),
                                                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, **options)
            for rank in range(count)]


def status_of(statuses):
    """Of the launch, from those of its processes. Some that skip what others run are an error."""
    if all(status == SKIPPED for status in statuses):
        return SKIPPED
    return next((status for status in statuses if status not in (0, SKIPPED)), int(SKIPPED in statuses))


if __name__ == "__main__":
    sys.exit(status_of([process.wait() for process in start(int(sys.argv[1]), sys.argv[2:])]))
