"""Looks for secrets wherever this user can read. Run as another user than the job's, with the text on its command line:

    python3 -c "$(cat scan.py)" SINCE FOLDER... <needles

`needles` is JSON: names and forms of secrets, in hexadecimal digits. Only files changed after SINCE are read, which is
when the secrets were drawn. Prints counts of what was read, and what was found, as JSON.
"""

import json
import os
import select
import socket
import stat
import sys

BYTES_MAX = 64 << 20
# What a process shows of itself to users with the right to read it.
SHOWN = ["cmdline", "environ", "maps", "auxv", "comm", "status", "stack", "syscall", "mountinfo"]


def main():
    since, folders = float(sys.argv[1]), sys.argv[2:]
    needles = [(name, bytes.fromhex(form)) for name, form in json.load(sys.stdin)]
    tally, found = {"processes": 0, "read": 0, "denied": 0, "files": 0, "sockets": 0, "spoke": 0}, []

    def look(where, text):
        found.extend(sorted({f"{name} in {where}" for name, form in needles if form in text}))

    def read(path, what):
        try:
            # Opening a pipe or a device could block for ever.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
                text = file.read(BYTES_MAX)
        except OSError:
            tally["denied"] += 1
            return
        tally[what] += 1
        look(path, text or b"")

    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        tally["processes"] += 1
        paths = [f"/proc/{pid}/{name}" for name in SHOWN]
        for folder in ("fd", "map_files", "cwd"):
            try:
                paths += [f"/proc/{pid}/{folder}/{name}" for name in os.listdir(f"/proc/{pid}/{folder}")]
            except OSError:
                tally["denied"] += 1
        for path in paths:
            if not os.path.isdir(path):
                read(path, "read")
    for folder in folders:
        for where, _, names in os.walk(folder):
            for path in (os.path.join(where, name) for name in names):
                try:
                    about = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISREG(about.st_mode) and max(about.st_mtime, about.st_ctime) >= since:
                    read(path, "files")
    for where, said in conversations(tally):
        look(where, said)
    print(json.dumps({"uid": os.getuid(), "found": sorted(set(found)), **tally}))


def conversations(tally):
    """The first bytes that each listening socket of this machine sends."""
    with open("/proc/net/unix") as table:
        names = {line.split()[7] for line in table if len(line.split()) > 7}
    for name in sorted(names):
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as line:
                line.setblocking(False)
                tally["sockets"] += 1
                try:
                    line.connect("\0" + name[1:] if name.startswith("@") else name)
                    if select.select([line], [], [], 0.1)[0]:
                        said = line.recv(1 << 16)
                        tally["spoke"] += 1
                        yield f"socket {name}", said
                except OSError:
                    pass


main()
