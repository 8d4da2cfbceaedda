"""A file system in memory that fails as it is told, by the kernel's own protocol (/dev/fuse, without a library)."""

import contextlib
import ctypes
import errno
import os
import struct
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
HEADER = struct.Struct("<IIQQIIII")
LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 10, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, CREATE, INTERRUPT, BATCH_FORGET = 20, 25, 26, 27, 28, 29, 35, 36, 42
NO_REPLY = {FORGET, INTERRUPT, BATCH_FORGET}
ROOT = 1
SIZE_IS_SET = 1 << 3
WRITE_BYTES_MAX = 128 << 10


class Faulty:
    """Its one folder holds files. `room` is how many bytes are kept; the write that reaches it is short, and those after
    it fail with `error` if `when` is "write". If `when` is "fsync" or "flush", they seem to succeed and are lost, and
    that call fails."""

    def __init__(self, folder, room, when, error):
        self.folder, self.room, self.when, self.error = str(folder), room, when, error
        self.files, self.names, self.used, self.is_broken = {}, {}, 0, False
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if LIBC.mount(b"faulty", self.folder.encode(), b"fuse", 0, options):
            code = ctypes.get_errno()
            os.close(self.device)
            raise OSError(code, os.strerror(code))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def unmount(self):
        LIBC.umount2(self.folder.encode(), 2)
        self.thread.join(timeout=5)
        with contextlib.suppress(OSError):
            os.close(self.device)

    def serve(self):
        while True:
            try:
                request = os.read(self.device, WRITE_BYTES_MAX + 8192)
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue
                # Unmounted.
                return
            _, kind, unique, node, *_ = HEADER.unpack_from(request)
            body = request[HEADER.size:]
            code, reply = 0, b""
            try:
                reply = self.answer(kind, node, body)
            except OSError as error:
                code = -error.errno
            if kind not in NO_REPLY:
                with contextlib.suppress(OSError):
                    os.write(self.device, struct.pack("<IiQ", 16 + len(reply), code, unique) + reply)

    def answer(self, kind, node, body):
        if kind == INIT:
            major, minor, ahead, _ = struct.unpack_from("<IIII", body)
            return struct.pack("<IIIIHHIIHH8I", major, min(minor, 31), ahead, 0, 16, 12, WRITE_BYTES_MAX, 1, 0, 0, *[0] * 8)
        if kind in (LOOKUP, CREATE):
            name = body[16 if kind == CREATE else 0:].rstrip(b"\0")
            if name not in self.names:
                if kind == LOOKUP:
                    raise OSError(errno.ENOENT, "no such file")
                self.names[name] = len(self.files) + 2
                self.files[self.names[name]] = bytearray()
            node = self.names[name]
            entry = struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.attributes(node)
            return entry if kind == LOOKUP else entry + struct.pack("<QII", node, 0, 0)
        if kind == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if kind == SETATTR:
            valid, _, _, size = struct.unpack_from("<IIQQ", body)
            if valid & SIZE_IS_SET:
                data = self.files[node]
                data[size:] = b""
                data.extend(bytes(size - len(data)))
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if kind in (OPEN, OPENDIR):
            return struct.pack("<QII", node, 0, 0)
        if kind == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(self.files[node][offset:offset + size])
        if kind == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            return struct.pack("<II", self.write(self.files[node], offset, body[40:40 + size]), 0)
        if kind == STATFS:
            return struct.pack("<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 1000, 900, 4096, 255, 4096, 0, *[0] * 6)
        if kind in (FSYNC, FLUSH):
            if self.is_broken and self.when == ("fsync" if kind == FSYNC else "flush"):
                raise OSError(self.error, "lost")
            return b""
        if kind == UNLINK:
            del self.names[body.rstrip(b"\0")]
            return b""
        if kind in (RELEASE, RELEASEDIR, READDIR, *NO_REPLY):
            return b""
        raise OSError(errno.ENOSYS, "not here")

    def write(self, file, offset, data):
        left = self.room - self.used
        kept = data[:left]
        if kept:
            file.extend(bytes(max(0, offset - len(file))))
            file[offset:offset + len(kept)] = kept
            self.used += len(kept)
        if len(kept) == len(data):
            return len(data)
        if self.when == "write":
            if kept:
                return len(kept)
            raise OSError(self.error, "no room")
        self.is_broken = True
        # The size is known though the bytes are lost.
        file.extend(bytes(max(0, offset + len(data) - len(file))))
        return len(data)

    def attributes(self, node):
        mode, size = (0o40777, 0) if node == ROOT else (0o100666, len(self.files[node]))
        return struct.pack("<6Q10I", node, size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
