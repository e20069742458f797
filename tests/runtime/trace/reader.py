#!/usr/bin/env python3
"""Reads a recording as docs/formats/trace.md says, independently of godwit's own reader: reader.py FILE

Prints a line for each process and each event, for comparison. Exits with 77 where libzstd is missing.
"""
import ctypes
import ctypes.util
import struct
import sys

MAGIC = b"\x89GWT\r\n\x1a\n"
MARKER = b"\x9egwc"
KINDS = ("delivery", "sent", "spawned", "ended", "span", "note", "gap")
MESSAGES = ("message", "request", "answer", "failure", "timer", "down", "stop")
WORD = (1 << 64) - 1


def zstd():
    path = ctypes.util.find_library("zstd")
    if path is None:
        print("libzstd is missing")
        sys.exit(77)
    library = ctypes.CDLL(path)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return library


def decompress(library, frame, size):
    buffer = ctypes.create_string_buffer(size)
    if library.ZSTD_decompress(buffer, size, frame, len(frame)) != size:
        raise ValueError("damaged frame")
    return buffer.raw[:size]


def fnv1a(data):
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def signed(value):
    return value - (1 << 64) if value >> 63 else value


class Source:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size):
        if self.at + size > len(self.data):
            raise ValueError("a record ends too early")
        self.at += size
        return self.data[self.at - size:self.at]

    def var(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value & WORD

    def zig(self):
        value = self.var()
        return (value >> 1) ^ -(value & 1)

    def diff(self, base):
        return (base + self.zig()) & WORD

    def text(self):
        return self.take(self.var())

    def left(self):
        return len(self.data) - self.at


class Recording:
    def __init__(self):
        self.numbers = {}  # of processes in the file: index into processes
        self.processes = []  # dicts
        self.events = []
        self.ended = False

    def process(self, number, said):
        if number not in self.numbers:
            self.numbers[number] = len(self.processes)
            self.processes.append({"key": 0, "started": 0, "offset": 0, "name": b"", "facts": {}})
        known = self.processes[self.numbers[number]]
        known.update({field: value for field, value in said.items() if value})
        return self.numbers[number]


class Lane:
    def __init__(self, process, thread):
        self.process, self.thread = process, thread
        self.series = self.cause_series = None
        self.end = self.request = self.first = 0


class Series:
    def __init__(self, process, high):
        self.process = process
        self.last = self.last_cause = (high << 40) & WORD


class Chunk:
    def __init__(self, recording):
        self.recording = recording
        self.processes, self.names, self.actors, self.lanes, self.series = [], [b""], [(0, 0)], [], []
        self.lane = 0

    def read(self, data):
        source = Source(data)
        while source.left():
            self.record(Source(source.take(source.var())))

    def record(self, body):
        kind = body.byte()
        if kind == 1:
            number, key = body.var(), struct.unpack("<Q", body.take(8))[0]
            said = {"key": key, "started": body.zig(), "offset": body.zig(), "name": body.text()}
            self.processes.append(self.recording.process(number, said))
        elif kind == 2:
            self.names.append(body.text())
        elif kind == 3:
            self.actors.append((self.processes[body.var()], body.var()))
        elif kind == 4:
            self.lanes.append(Lane(self.processes[body.var()], body.var()))
        elif kind == 5:
            self.series.append(Series(self.processes[body.var()], body.var()))
        elif kind == 6:
            process, name, value = self.processes[body.var()], body.text(), body.text()
            self.recording.processes[process]["facts"][name] = value
        elif 16 <= kind < 16 + len(KINDS):
            self.event(kind - 16, body)

    def event(self, kind, body):
        flags = body.var()

        def has(bit):
            return flags >> bit & 1

        if has(2):
            self.lane = body.var()
        lane = self.lanes[self.lane]
        message = body.byte() if has(6) else 0
        if has(3):
            lane.series = self.series[body.var()]
        lane.series.last = body.diff(lane.series.last)
        if has(5):
            lane.cause_series = self.series[body.var()]
        cause = (0, 0)
        if has(4):
            lane.cause_series.last_cause = body.diff(lane.cause_series.last_cause)
            cause = (lane.cause_series.process, lane.cause_series.last_cause)
        name, sender, receiver = self.names[body.var()], self.actors[body.var()], self.actors[body.var()]
        begin = body.diff(lane.end)
        queued = (begin - body.zig()) & WORD if has(7) else begin
        lane.end = body.diff(begin)
        request = body.diff(lane.request) if has(8) else 0
        lane.request = request or lane.request
        wait = body.var() if has(9) else 0
        made = first = 0
        if has(10):
            made, first = body.var(), body.diff(lane.first)
            lane.first = (first + made) & WORD
        numbers = [body.var() if has(bit) else 0 for bit in (11, 12, 13)]
        content = body.text() if has(14) else b""
        actors = [self.actors[body.var()] for _ in range(body.var())] if has(15) else []
        text = body.text() if has(16) else b""
        attributes = [(body.text(), body.text()) for _ in range(body.var())] if has(17) else []
        identity = (lane.process, lane.series.last)
        times = [signed(queued), signed(begin), signed(lane.end)]
        line = [KINDS[kind], MESSAGES[message], has(0), has(1), identity, cause, sender, receiver, name.hex(), lane.thread]
        line += times + [request, wait, first, made] + numbers + [content.hex(), actors, text.hex()]
        line += [[(n.hex(), v.hex()) for n, v in attributes]]
        self.recording.events.append((times[1], identity, line))


def read(data):
    library = zstd()
    version = struct.unpack_from("<H", data, 8)[0]
    if data[:8] != MAGIC or version != 1:
        raise ValueError("no recording of version 1")
    recording, at = Recording(), 16
    while at < len(data):
        header = data[at:at + 28]
        kind, stored_as, _, stored, size, _, checksum = struct.unpack_from("<4xBB2xIIIII", header)
        if header[:4] != MARKER or checksum != fnv1a(header[:24]):
            raise ValueError(f"damaged at byte {at}")
        at += 28
        if kind == 1 and stored_as == 1:
            Chunk(recording).read(decompress(library, data[at:at + stored], size))
        recording.ended = recording.ended or kind == 2
        at += stored
    offsets = [process["offset"] for process in recording.processes]
    recording.events.sort(key=lambda e: (e[0] + offsets[e[1][0]], e[1]))
    return recording


def show(value):
    if isinstance(value, (list, tuple)):
        return "(" + " ".join(show(each) for each in value) + ")"
    return str(value)


def main():
    with open(sys.argv[1], "rb") as file:
        recording = read(file.read())
    for process in recording.processes:
        facts = [(name.hex(), value.hex()) for name, value in process["facts"].items()]
        print(show(["process", process["key"], process["name"].hex(), process["started"], process["offset"], facts]))
    for _, _, line in recording.events:
        print(show(line))
    print("end" if recording.ended else "no end")


if __name__ == "__main__":
    main()
