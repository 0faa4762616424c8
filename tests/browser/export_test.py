"""Opens the page of poem export in a real browser, from a file and without a network: export_test.py PROGRAM"""
import base64
import csv
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import zlib

from browser import HERE, REMEDY, Browser
from report_test import HOSTILE, check, check_looks, check_unharmed, poem
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

DETECTOR = "careful.safetensors"
RUNTIME = HERE / "node_modules/onnxruntime-web/dist"
CONFIG = """
data: {train: 'photos/train#per_class=8', test: 'photos/test#per_class=4', outliers: 'world:outliers:64',
       ood: ['digits=world:digits:30'], size: 16, validation: 0.2}
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 64}
train: {epochs: 2, batch: 16, outlier_batch: 16, learning_rate: 0.01}
"""


def write_png(path, width, height, seed):
    """Smooth random colours, so that resizing matters and rounding does not."""
    draw = random.Random(seed)
    waves = [[draw.uniform(0.05, 0.4) for _ in range(2)] + [draw.uniform(0, 255)] for _ in range(3)]
    rows = b"".join(b"\0" + bytes(int(shift + 97 * a * x + 89 * b * y) % 256 for x in range(width) for a, b, shift in waves)
                    for y in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_images(folder, photos):
    """Smaller and larger than the network's input, wide and tall: shrunk, grown and left alone. And photos of classes."""
    folder.mkdir()
    for photo in photos:
        shutil.copy(photo, folder / f"{photo.parent.name}.png")
    for number, (width, height) in enumerate(((16, 16), (32, 32), (50, 37), (29, 61), (9, 12), (13, 7), (16, 40), (15, 20))):
        write_png(folder / f"{width}x{height}.png", width, height, number)
    return sorted(folder.iterdir())


def expected_of(program, place, images):
    """What poem predict says of the same files: by name, the verdict and the score."""
    poem(program, "predict", DETECTOR, images, "--out", place / "rows.csv")
    with open(place / "rows.csv") as file:
        rows = list(csv.DictReader(file))
    return {pathlib.Path(row["path"]).name: (row["verdict"], float(row["score"])) for row in rows}


def rows_of(browser, least):
    """The table's rows, the newest first, once there are so many: name, verdict and score."""
    table = lambda _: browser.run("""
        const rows = [...document.querySelectorAll("tbody tr")].filter((row) => row.cells.length === 5);
        return rows.map((row) => [row.cells[0].textContent, row.cells[2].textContent, row.querySelector("data")?.value])""")
    WebDriverWait(browser.driver, 60).until(lambda driver: len(table(driver)) >= least)
    return table(None)


def check_rows(rows, expected):
    for name, word, score in rows:
        wanted_word, wanted_score = expected[name]
        check(abs(float(score) - wanted_score) <= 1e-4 * max(1, abs(wanted_score)), f"{name}: {score}, not {wanted_score}")
        check(word == wanted_word, f"{name}: '{word}', not '{wanted_word}'")


def send(browser, event, kind, file):
    """Pastes or drops a file."""
    browser.run("""
        const [event, kind, name, text] = arguments;
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name, {type: "image/png"}));
        const options = {bubbles: true, cancelable: true, clipboardData: transfer, dataTransfer: transfer};
        document.body.dispatchEvent(new window[kind](event, options))""",
                event, kind, file.name, base64.b64encode(file.read_bytes()).decode())


def main(program):
    check(RUNTIME.exists(), f"onnxruntime-web is missing: {REMEDY}")
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        place = pathlib.Path(name)
        os.chdir(place)
        poem(program, "world", "photos")
        for part in ("train", "test"):
            (place / "photos" / part / "boat").rename(place / "photos" / part / HOSTILE)
        (place / "config.yaml").write_text(CONFIG)
        poem(program, "train", "config.yaml", "--out", "run")
        poem(program, "calibrate", "run", "--id", "photos/test", "--tpr", "0.2", "--unsure", "0.6", "--out", DETECTOR)
        poem(program, "export", DETECTOR, "--web", "page", "--runtime", RUNTIME)
        classes = ("car", "fish", "house", "key", "mug", "mushroom", "tree")
        images = make_images(place / "images", [min((place / "photos/test" / name).iterdir()) for name in classes])
        expected = expected_of(program, place, place / "images")
        check({"unsure", "unknown"} <= {word for word, _ in expected.values()}, f"verdicts {expected}")
        page = place / "page/index.html"

        check_unharmed(browser, page, "page")
        chooser = browser.driver.find_element(By.CSS_SELECTOR, "input[type=file]")
        WebDriverWait(browser.driver, 60).until(lambda _: chooser.is_enabled())
        chooser.send_keys("\n".join(map(str, images)))
        rows = rows_of(browser, len(images))
        check({row[0] for row in rows} == set(expected), f"rows {rows}")
        check_rows(rows, expected)
        send(browser, "paste", "ClipboardEvent", images[0])
        send(browser, "drop", "DragEvent", images[1])
        rows = rows_of(browser, len(images) + 2)
        check([row[0] for row in rows[:2]] == [images[1].name, images[0].name], f"pasted and dropped: {rows}")
        check_rows(rows, expected)
        dots = browser.run("return document.querySelectorAll('svg[role=img] circle.dot').length")
        check(dots == len(images) + 2, f"{dots} images on the histogram")

        (place / "no.png").write_text("not an image")
        send(browser, "drop", "DragEvent", place / "no.png")
        check(rows_of(browser, len(images) + 3)[0] == ["no.png", "cannot be read as an image", None], "a bad file")
        send(browser, "drop", "DragEvent", images[2])  # the page goes on
        check_rows(rows_of(browser, len(images) + 4)[:1], expected)
        asked = [url for url in browser.requests() if not url.startswith(("data:", "blob:", page.as_uri()))]
        check(not asked, f"asked for {asked}")
        check(not browser.complaints(), "the console complains")
        check_looks(browser, page)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
