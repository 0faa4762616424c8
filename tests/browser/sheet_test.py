"""Opens the contact sheet of poem predict in a real browser: sheet_test.py PROGRAM"""
import csv
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser
from report_test import HOSTILE_FILE, TINY, check, check_looks, check_unharmed, poem



def shown(browser):
    """By section: the scores and the paths under the pictures."""
    return dict(browser.run("""
        return [...document.querySelectorAll("section")].map((section) => [
          section.querySelector("h2").textContent,
          [...section.querySelectorAll(".gallery li")].map((tile) =>
            [...tile.querySelectorAll("span")].map((span) => span.textContent))])"""))


def main(program):
    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        folder = pathlib.Path(place)
        (folder / "image.yaml").write_text(TINY)
        poem(program, "train", folder / "image.yaml", "--out", folder / "run")
        poem(program, "world", folder / "photos", "--train", 8, "--test", 40, "--outliers", 24, "--ood", 8)
        poem(program, "calibrate", folder / "run", "--id", folder / "photos/test", "--tpr", 0.5, "--unsure", 0.8,
             "--out", folder / "detector.safetensors")
        image = next((folder / "photos/test").rglob("*.png"))
        (folder / "photos/test" / HOSTILE_FILE).write_bytes(image.read_bytes())
        (folder / "photos/test" / f"bad {HOSTILE_FILE}").write_text("no image")
        page, table = folder / "sheet.html", folder / "rows.csv"
        code = subprocess.run([program, "--quiet", "predict", folder / "detector.safetensors", folder / "photos/test", "--sheet",
                               page, "--out", table], stderr=subprocess.DEVNULL).returncode
        check(code == 3, f"exit code {code}")
        check_unharmed(browser, page, "contact sheet")
        rows = [row for row in csv.DictReader(table.open(newline="")) if not row["error"]]
        expected = {"Rejected": "unknown", "Unsure": "unsure", "Kept": None}
        tiles = shown(browser)
        check(list(tiles) == ["Rejected", "Unsure", "Kept", "Unreadable"], f"sections {list(tiles)}")
        for section, verdict in expected.items():
            chosen = [row for row in rows if (row["verdict"] if row["verdict"] in ("unknown", "unsure") else None) == verdict]
            chosen.sort(key=lambda row: float(row["score"]))
            check(chosen and len(tiles[section]) == len(chosen), f"{section}: {len(tiles[section])} pictures, not {len(chosen)}")
            check(sorted(tile[-1] for tile in tiles[section]) == sorted(row["path"] for row in chosen), f"{section}: other images")
            scores = [float(tile[1].removeprefix("score ")) for tile in tiles[section]]
            check(scores == sorted(scores), f"{section}: not by rising score")
        blank = browser.run("""
            return [...document.querySelectorAll(".gallery canvas")].filter((canvas) => {
              const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(data).size < 3;
            }).length""")
        check(blank == 0, f"{blank} pictures are blank")
        check_looks(browser, page)
        check_duplicates(program, folder, browser)


def check_duplicates(program, folder, browser):
    """The page of poem data check: pairs side by side, with their names."""
    image = (folder / "photos/test" / HOSTILE_FILE).read_bytes()
    for name in ["pool", "twins"]:
        (folder / name).mkdir()
        (folder / name / HOSTILE_FILE).write_bytes(image)
    (folder / "pool/bad.png").write_text("no image")
    page = folder / "pairs.html"
    code = subprocess.run([program, "--quiet", "data", "check", "pool=" + str(folder / "pool"), "twins=" + str(folder / "twins"),
                           "--sheet", page], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    check(code == 3, f"exit code {code}")
    check_unharmed(browser, page, "page of duplicates")
    tiles = shown(browser)
    pair = tiles["The same image in two sets"]
    check(len(pair) == 2 and pair[0][0] == f"pool: {HOSTILE_FILE}" and pair[1][0] == f"twins: {HOSTILE_FILE}", f"pair {pair}")
    check(list(tiles) == ["The same image in two sets", "Unreadable"], f"sections {list(tiles)}")


if __name__ == "__main__":
    main(sys.argv[1])
