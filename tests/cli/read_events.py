"""Reads a run's TensorBoard event file and compares it with metrics.jsonl; shares no code with the writer.

    read_events.py RUN    prints "EVENTS events, VALUES values", or says what is wrong and fails
"""

import glob
import json
import math
import struct
import sys


def crc32c(data):
    """Bit by bit, from the definition: polynomial 0x1EDC6F41, reflected."""
    register = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            feedback = (register ^ (byte >> bit)) & 1
            register >>= 1
            if feedback:
                register ^= int(f"{0x1EDC6F41:032b}"[::-1], 2)
    return register ^ 0xFFFFFFFF


# Test vectors of RFC 3720, B.4
assert crc32c(b"123456789") == 0xE3069283
assert crc32c(bytes(32)) == 0x8A9136AA
assert crc32c(b"\xff" * 32) == 0x62A8AB43
assert crc32c(bytes(range(32))) == 0x46DD794E


def unmask(masked):
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return ((rotated << 15) | (rotated >> 17)) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        header = data[at : at + 8]
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert crc32c(header) == unmask(length_crc), f"byte {at}: checksum of the length"
        payload = data[at + 12 : at + 12 + length]
        assert len(payload) == length, f"byte {at}: cut short"
        (payload_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert crc32c(payload) == unmask(payload_crc), f"byte {at}: checksum of the bytes"
        yield payload
        at += 16 + length


def varint(data, at):
    result = shift = 0
    while True:
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return result, at


def fields(message):
    """(number, value) pairs of a protobuf message, values by wire type: int, double, bytes or float."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(message, at)
        elif wire == 1:
            (value,), at = struct.unpack_from("<d", message, at), at + 8
        elif wire == 2:
            length, at = varint(message, at)
            value, at = message[at : at + length], at + length
            assert len(value) == length, "a field is cut short"
        elif wire == 5:
            (value,), at = struct.unpack_from("<f", message, at), at + 4
        else:
            raise AssertionError(f"wire type {wire}")
        yield number, value


TAGS = {  # where each figure of metrics.jsonl is to be found
    "learning_rate": "learning_rate",
    "loss/total": "loss",
    "loss/classification": "classification_loss",
    "loss/regularisation": "regularisation",
    "energy/id": "id_energy",
    "energy/outliers": "outlier_energy",
    "accuracy/train": "train_accuracy",
    "accuracy/validation": "validation_accuracy",
}


def expected(line):
    figures = {tag: line[key] for tag, key in TAGS.items()}
    for group in ("mining", "seconds"):
        for key, value in (line[group] or {}).items():
            if key != "classes":
                figures[f"{group}/{key}"] = value
    for share in (line["mining"] or {}).get("classes", []):
        for key in ("pool", "mined"):
            figures[f"mining/classes/{share['name']}/{key}"] = share[key]
    results = line.get("results")
    if results:
        figures["results/id_accuracy"] = results["id_accuracy"]
        for name, of_set in [*results["sets"].items(), ("mean", results["mean"])]:
            for key, value in of_set.items():
                figures[f"results/{name}/{key}"] = value
    return {tag: value for tag, value in figures.items() if value is not None}


def main(run):
    (path,) = glob.glob(glob.escape(run) + "/events.out.tfevents.*")
    start = int(path.split(".")[-2])
    with open(run + "/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    with open(path, "rb") as file:
        events = [list(fields(payload)) for payload in records(file.read())]
    assert events.pop(0) == [(1, float(start)), (3, b"brain.Event:2")], "the first event tells the version"

    found, times = {}, {}
    for event in events:
        [wall_time] = [value for number, value in event if number == 1]
        [step] = [value for number, value in event if number == 2]
        [summary] = [value for number, value in event if number == 5]
        times.setdefault(step, wall_time)
        for number, value in fields(summary):
            assert number == 1, number
            [(tag_field, tag), (value_field, scalar)] = fields(value)
            assert (tag_field, value_field) == (1, 2)
            assert tag.decode() not in found.setdefault(step, {}), f"{tag} twice in step {step}"
            found[step][tag.decode()] = scalar
    assert list(found) == [line["epoch"] for line in lines], f"steps {list(found)}"
    wall_time = start
    for line in lines:
        wanted, got = expected(line), found[line["epoch"]]
        assert wanted.keys() == got.keys(), f"tags differ: {wanted.keys() ^ got.keys()}"
        for tag, value in wanted.items():
            assert math.isclose(value, got[tag], rel_tol=1e-6, abs_tol=1e-30), f"{tag}: {got[tag]}, not {value}"
        wall_time += sum(line["seconds"].values())
        assert math.isclose(wall_time, times[line["epoch"]], rel_tol=1e-12), f"wall time of epoch {line['epoch']}"
    print(f"{len(events)} events, {sum(map(len, found.values()))} values")


if __name__ == "__main__":
    main(sys.argv[1])
