"""Tars as WebDataset has them: samples of one key with an image, a class and a description. Writes into this folder

shards/pool-000.tar, shards/pool-001.tar  38 images of 20×20 pixels; two samples lack their image
all.tar                                   the same images
long-gnu.tar, long-pax.tar                5 images with names that do not fit into a plain header
"""
import io
import json
import os
import random
import struct
import tarfile
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(seed, size=20):
    draw = random.Random(seed)
    rows = b"".join(b"\0" + draw.randbytes(3 * size) for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write(path, folder, numbers, form):
    with tarfile.open(path, "w", format=form) as tar:
        for number in numbers:
            sample = {"cls": b"%d" % (number % 3), "json": json.dumps({"key": number}).encode()}
            if number not in (23, 24):
                sample["png"] = png(number)
            for extension, data in sorted(sample.items()):
                info = tarfile.TarInfo(f"{folder}{number:04}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


os.mkdir("shards")
write("shards/pool-000.tar", "", range(20), tarfile.GNU_FORMAT)
write("shards/pool-001.tar", "", range(20, 40), tarfile.PAX_FORMAT)
write("all.tar", "", range(40), tarfile.USTAR_FORMAT)
write("long-gnu.tar", "deep/" * 40, range(5), tarfile.GNU_FORMAT)
write("long-pax.tar", "déép/" * 40, range(5), tarfile.PAX_FORMAT)
