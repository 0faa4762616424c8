# Small files that claim to be large, and limits of memory.
source "$(dirname "$0")/common.sh"

# An .npz of 10 MB whose array has 10 GB of zeros, and one whose header does not fit them. Their checksum is wrong:
# nobody gets so far.
python3 - <<'PY'
import struct, zlib

def deflated(header, blocks):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)  # the same bytes for each
    return start + block * blocks + packer.flush()

def zipped(path, name, size, packed):
    extra = struct.pack('<HHQQ', 1, 16, size, len(packed))
    common = struct.pack('<HHHHHIIIHH', 45, 0, 8, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(name), len(extra))
    local = b'PK\x03\x04' + common + name + extra
    entry = b'PK\x01\x02' + struct.pack('<H', 45) + common + struct.pack('<HHHII', 0, 0, 0, 0, 0) + name + extra
    with open(path, 'wb') as f:
        f.write(local + packed + entry)
        f.write(b'PK\x05\x06' + struct.pack('<HHHHIIH', 0, 0, 1, 1, len(entry), len(local) + len(packed), 0))

def bomb(path, shape, blocks):
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }" % (shape,)
    text = text.ljust(117) + '\n'
    header = b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode()
    zipped(path, b'images.npy', len(header) + (blocks << 20), deflated(header, blocks))

bomb('bomb.npz', (3333, 3, 1024, 1024), 9999)
bomb('lie.npz', (3334, 3, 1024, 1024), 9999)
bomb('flat.npz', '(10484711424,)', 9999)
zipped('photos.zip', b'a/1.png', 2 << 30, deflated(b'', 2048))

header = struct.pack('>IIBBBBB', 16384, 16384, 8, 2, 0, 0, 0)  # 16384×16384 pixels in 33 bytes
with open('wide.png', 'wb') as f:
    f.write(b'\x89PNG\r\n\x1a\n' + struct.pack('>I', len(header)) + b'IHDR' + header +
            struct.pack('>I', zlib.crc32(b'IHDR' + header)) + struct.pack('>I', 100) + b'IDAT')

frame = struct.pack('>HBHHB', 17, 8, 16384, 16384, 3) + bytes([1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0])
scan = struct.pack('>HB', 12, 3) + bytes([1, 0, 2, 0, 3, 0, 0, 0, 0])
with open('wide.jpg', 'wb') as f:  # progressive: all coefficients stay in memory, even for a small picture
    f.write(b'\xff\xd8\xff\xc2' + frame + b'\xff\xda' + scan)
PY
[ "$(stat -c %s bomb.npz)" -lt 12000000 ] || fail "the file is large itself"

# What follows has an address space of 6 GB, of which LibTorch takes a part.
ulimit -v 6000000
expect_ok info bomb.npz
expect_words "$logs/out" "count      3333" "3 channels, 1024x1024"
expect_ok info 'bomb.npz#count=7'
expect_words "$logs/out" "count      7"
expect_error lie.npz images.npy "has 10484711424 bytes of elements" "needs 10487857152" -- info lie.npz
write_image_config run.yaml
expect_error bomb.npz "needs 9999 MiB of memory" "MiB are free" "#count=N" "poem pack" -- \
  train run.yaml --out run --set data.outliers=bomb.npz
expect_error flat.npz "needs 9999 MiB of memory" "free some memory" -- metrics --id flat.npz --ood a=flat.npz
expect_error world:train:50000000 "does not fit into memory" -- info world:train:50000000
if [ "$(ldd "$program" | grep -c libarchive)" -gt 0 ]; then
  expect_error photos.zip:a/1.png "more than 1 GiB" -- info photos.zip --size 8
fi

# A detector of a few kilobytes whose description asks for a network of terabytes: none of it is built.
write_flat_config flat.yaml
expect_ok train flat.yaml --out flat
python3 - <<'PY'
import json, struct

def changed(path, change):
    data = open('flat/detector.safetensors', 'rb').read()
    length, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length])
    about = json.loads(header['__metadata__']['detector'])
    about['network'].update(change)
    header['__metadata__']['detector'] = json.dumps(about)
    text = json.dumps(header).encode()
    open(path, 'wb').write(struct.pack('<Q', len(text)) + text + data[8 + length:])

changed('wide.safetensors', {'name': 'wideresnet', 'depth': 10, 'width': 10**6})
changed('flat.safetensors', {'hidden': [10**6, 10**6]})
PY
expect_error wide.safetensors "has no tensor 'stem.weight'" -- info wide.safetensors
expect_error flat.safetensors "tensor 'hidden1.weight' has shape" "1000000" -- info flat.safetensors

# 3.2 GB for two threads, of which less is left.
poem() { "$program" --threads 2 "$@"; }
ulimit -v 3000000
mkdir wide && mv wide.png wide/1.png
expect_error wide/1.png "16384×16384 pixels" "2 threads need 3072 MiB of memory" -- info wide --size 8
mkdir coefficients && mv wide.jpg coefficients/1.jpg
expect_error coefficients/1.jpg "16384×16384 pixels" "2 threads need 3120 MiB of memory" -- info coefficients --size 8
