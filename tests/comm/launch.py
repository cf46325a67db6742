#!/usr/bin/env python3
"""Starts processes as torchrun does, on this machine: launch.py COUNT PROGRAM [ARGUMENT]... Fails if one of them does."""
import os
import socket
import subprocess
import sys


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


if __name__ == "__main__":
    statuses = [process.wait() for process in start(int(sys.argv[1]), sys.argv[2:])]
    sys.exit(next((status for status in statuses if status != 0), 0))
