#!/usr/bin/env python3
"""Reads a trace of `attacca run` with the message classes of the `perfetto` package: perfetto.py <binary>.

Every slice of the JSON trace must be in Perfetto's file, on its track, with its times, depth and arguments. Needs perfetto
from PyPI, and skips itself, with status 77, without it.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

# The file has the name of the package, and its folder comes first on the path.
sys.path = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != pathlib.Path(__file__).resolve().parent]
try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
except ImportError:
    print("perfetto is missing: pip install perfetto")
    sys.exit(77)


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def value_of(annotation):
    return getattr(annotation, annotation.WhichOneof("value"))


def slices_of_perfetto(data):
    """(process, track, name, begin, end): arguments, as a reader of the format pairs begins and ends."""
    trace = protos.Trace()
    assert trace.ParseFromString(data) == len(data)
    processes, tracks, open_slices, slices = {}, {}, collections.defaultdict(list), []
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                processes[track.uuid] = track.process.process_name
            else:
                tracks[track.uuid] = (processes[track.parent_uuid], track.name)
            continue
        event = packet.track_event
        stack = open_slices[event.track_uuid]
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            arguments = {each.name: value_of(each) for each in event.debug_annotations}
            stack.append((event.name, packet.timestamp, arguments))
        else:
            assert event.type == protos.TrackEvent.TYPE_SLICE_END
            name, begin, arguments = stack.pop()
            assert begin <= packet.timestamp
            slices.append((*tracks[event.track_uuid], name, begin, packet.timestamp, tuple(sorted(arguments.items()))))
    assert not any(open_slices.values()), "a slice does not end"
    return slices


def slices_of_json(text):
    events = json.loads(text)["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    for event in events:
        if event["ph"] == "X":
            arguments = {key: value for key, value in event["args"].items() if key != "arithmetic"}
            begin = nanoseconds(event["ts"])
            yield (processes[event["pid"]], tracks[event["tid"]], event["name"], begin, begin + nanoseconds(event["dur"]),
                   tuple(sorted(arguments.items())))


def main():
    with tempfile.TemporaryDirectory() as folder:
        text, file = pathlib.Path(folder) / "run.json", pathlib.Path(folder) / "run.pftrace"
        subprocess.run([sys.argv[1], "run", "--plain", "Once upon a time", "-n", "20", "--device", "host", "--scheduler", "resident",
                        "--trace", str(text)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.argv[1], "trace", str(text), "-o", str(file)], check=True)
        expected, found = sorted(slices_of_json(text.read_text())), sorted(slices_of_perfetto(file.read_bytes()))
    assert len(expected) > 500, len(expected)
    different = [pair for pair in zip(expected, found) if pair[0] != pair[1]]
    assert len(expected) == len(found) and not different, (len(expected), len(found), different[:2])
    print(f"perfetto: {len(found)} slices on {len({slice[:2] for slice in found})} tracks are the same in both formats")


main()
