#!/usr/bin/env python3
"""Runs a command, and delays what it reads and what it writes, as a long way to its host would.

    delayed.py THERE BACK COMMAND...

THERE and BACK are milliseconds."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque


def carry(source, sink, seconds):
    """Passes bytes on, each piece so much later than it came."""
    pieces, news = deque(), threading.Condition()

    def read():
        while True:
            try:
                piece = os.read(source, 1 << 16)
            except OSError:
                piece = b""
            with news:
                pieces.append((time.monotonic() + seconds, piece))
                news.notify()
            if not piece:
                return

    threading.Thread(target=read, daemon=True).start()
    while True:
        with news:
            news.wait_for(lambda: pieces)
            due, piece = pieces.popleft()
        time.sleep(max(0, due - time.monotonic()))
        if not piece:
            break
        try:
            while piece:
                piece = piece[os.write(sink, piece):]
        except OSError:
            break
    os.close(sink)


def main():
    there, back = (float(word) / 1000 for word in sys.argv[1:3])
    child = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    ways = [threading.Thread(target=carry, args=way, daemon=True)
            for way in [(0, child.stdin.fileno(), there), (child.stdout.fileno(), 1, back)]]
    for way in ways:
        way.start()
    ways[1].join()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
