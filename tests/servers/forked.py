"""Stands for `sdk_mcp.py` over stdio where a test is not about the start, which takes a second: gives its
streams to a process that has the SDK loaded, at a Unix socket, and ends when the server in there does."""

import os
import socket
import sys

STREAMS = (0, 1, 2)

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(sys.argv[1])
        socket.send_fds(door, [b"."], STREAMS)
        for stream in STREAMS:
            os.close(stream)
        door.recv(1)
