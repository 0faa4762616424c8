"""Image files of all kinds that people have: python3 image_files.py FOLDER writes PNG files of 20×20 pixels.

grey.png, alpha.png, deep.png (16 bits) and turned.png (by EXIF) show what plain.png shows, as far as they can; bomb.png
claims 60,000×60,000 pixels, cut.png ends early, and text.jpg is text.
"""
import os
import struct
import sys
import zlib

folder, size = sys.argv[1], 20
os.makedirs(folder, exist_ok=True)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, colour, bits=8, side=size, exif=b""):
    header = struct.pack(">IIBBBBB", side, side, bits, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + exif + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def write(name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


grey = [[(7 * x + 11 * y) % 256 for x in range(size)] for y in range(size)]  # the same in all channels
plain = png([b"".join(bytes([v, v, v]) for v in row) for row in grey], 2)
write("plain.png", plain)
write("grey.png", png([bytes(row) for row in grey], 0))
write("alpha.png", png([b"".join(bytes([v, v, v, 9]) for v in row) for row in grey], 6))
write("deep.png", png([b"".join(struct.pack(">H", 257 * v) for v in row) for row in grey], 0, 16))
turned = [bytes(grey[c][size - 1 - r] for c in range(size)) for r in range(size)]
orientation = b"II*\0" + struct.pack("<IHHHIHH", 8, 1, 0x0112, 3, 1, 6, 0) + bytes(4)
write("turned.png", png(turned, 0, exif=chunk(b"eXIf", orientation)))
write("mislabelled.jpg", plain)
write("bomb.png", png([], 0, side=60000))
write("cut.png", plain[: len(plain) // 2])
write("text.jpg", b"This is not an image.\n")
write("empty.jpg", b"")
