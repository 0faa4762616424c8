"""Small files in the place of the paper's data sets: python3 stand_ins.py FOLDER.

They have the names, the formats and the inner folders of the real downloads, and a few images each.
"""
import gzip
import io
import os
import random
import struct
import sys
import tarfile
import zipfile
import zlib

folder = sys.argv[1]
draw = random.Random(0)


def png(height, width):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + draw.randbytes(3 * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def tar(name, files):
    with tarfile.open(f"{folder}/{name}", "w:gz" if name.endswith("gz") else "w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def npy(code, shape, data):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def npz(images):
    """A batch of downsampled ImageNet."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as arrays:
        arrays.writestr("data.npy", npy("|u1", (images, 3 * 64 * 64), draw.randbytes(images * 3 * 64 * 64)))
        arrays.writestr("labels.npy", npy("<i8", (images,), struct.pack(f"<{images}q", *range(1, images + 1))))
    return content.getvalue()


def mat_array(name, shape, data):
    """A MATLAB array of uint8, as an element of a level 5 file."""
    def element(kind, content):
        return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)

    parts = element(6, struct.pack("<II", 9, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, parts + element(1, name.encode()) + element(2, data))


def cifar(labels, images):
    return b"".join(bytes(labels) + draw.randbytes(3072) for _ in range(images))


cifar_10 = {f"data_batch_{i}.bin": cifar(1, 2) for i in range(1, 6)}
names = "airplane automobile bird cat deer dog frog horse ship truck"
cifar_10.update({"test_batch.bin": cifar(1, 2), "batches.meta.txt": names.replace(" ", "\n").encode()})
tar("cifar-10-binary.tar.gz", {f"cifar-10-batches-bin/{name}": data for name, data in cifar_10.items()})
tar("cifar-100-binary.tar.gz", {f"cifar-100-binary/{name}.bin": cifar(2, 2) for name in ("train", "test")})
with open(f"{folder}/test_32x32.mat", "wb") as file:
    file.write(b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM"))
    file.write(mat_array("X", (32, 32, 3, 3), draw.randbytes(32 * 32 * 3 * 3)) + mat_array("y", (3, 1), bytes((1, 2, 10))))
tar("dtd-r1.0.1.tar.gz", {"dtd/images/banded/banded_0002.jpg": png(40, 50), "dtd/images/dotted/dotted_0001.jpg": png(60, 40),
                          "dtd/labels/train1.txt": b"banded/banded_0002.jpg\n"})
tar("test_256.tar", {f"test_256/Places365_test_0000000{i}.jpg": png(256, 256) for i in range(4)})
tar("LSUN.tar.gz", {f"LSUN/test/{i}.png": png(36, 36) for i in range(5)})
tar("LSUN_resize.tar.gz", {f"LSUN_resize/LSUN_resize/{i}.png": png(32, 32) for i in range(6)})
tar("iSUN.tar.gz", {f"iSUN/iSUN_patches/{i}.jpeg": png(32, 32) for i in range(7)})
with gzip.open(f"{folder}/t10k-images-idx3-ubyte.gz", "wb") as file:
    file.write(struct.pack(">4i", 0x0803, 3, 28, 28) + draw.randbytes(3 * 28 * 28))
for part, inner in ((1, ""), (2, "a folder/")):
    with zipfile.ZipFile(f"{folder}/Imagenet64_train_part{part}_npz.zip", "w") as archive:
        for i in range(5 * part - 4, 5 * part + 1):
            archive.writestr(f"{inner}train_data_batch_{i}.npz", npz(2))
