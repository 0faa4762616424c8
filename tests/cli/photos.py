"""Images as files: python3 photos.py FOLDER COUNT [SIZE] writes COUNT images 1.bmp, 2.bmp ... of SIZE pixels.

A .png of the same name holds the same pixels turned, and says so in its EXIF block: orientation 6.
"""
import os
import random
import struct
import sys
import zlib

folder, count, size = sys.argv[1], int(sys.argv[2]), int((sys.argv + ["16"])[3])
draw = random.Random(folder)
os.makedirs(folder, exist_ok=True)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


for number in range(1, count + 1):
    pixels = [[draw.randbytes(3) for _ in range(size)] for _ in range(size)]  # rows of RGB
    rows = b"".join(b"".join(p[::-1] for p in row) + bytes(-3 * size % 4) for row in reversed(pixels))
    header = struct.pack("<IiiHHIIiiII", 40, size, size, 1, 24, 0, len(rows), 0, 0, 0, 0)
    with open(f"{folder}/{number}.bmp", "wb") as file:
        file.write(b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54) + header + rows)
    # What the camera stores: row r is the column that is seen at the right minus r.
    stored = b"".join(b"\0" + b"".join(pixels[c][size - 1 - r] for c in range(size)) for r in range(size))
    exif = b"II*\0" + struct.pack("<IHHHIHH", 8, 1, 0x0112, 3, 1, 6, 0) + bytes(4)
    with open(f"{folder}/{number}.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)))
        file.write(chunk(b"eXIf", exif) + chunk(b"IDAT", zlib.compress(stored)) + chunk(b"IEND", b""))
