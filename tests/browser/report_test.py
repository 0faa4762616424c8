"""Opens reports in a real browser: report_test.py PROGRAM [RUN FOLDER-FOR-SCREENSHOTS]

Without RUN it trains a small run and checks its report. With RUN it writes pictures of that run's report for docs/."""
import array
import json
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

from browser import Browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HOSTILE = "<marquee> '\"&"  # as the name of a test set, which holds neither '=' nor '/'
WORSE = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!-- '\"&"
HOSTILE_FILE = "<img src=x onerror=alert(1)>.png"
PERCENT = "\u00a0%"  # no line breaks between a figure and its sign
CONFIG = """
data:
  train: world:train:64
  test: world:test:60
  outliers: world:outliers:64
  ood: ['digits=world:digits:40', "%s=world:scenes:30"]
  size: 16
  validation: 0.1
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 64}
train: {epochs: 3, batch: 16, outlier_batch: 16, learning_rate: 0.01, evaluate_every: 1}
""" % HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
TINY = """
data: {train: "world:train:80", outliers: "world:outliers:32", size: 16, validation: 0.5}
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 32, select: 32}
train: {epochs: 1, batch: 8, outlier_batch: 8}
"""
STUDY = """
title: %s
base: flat.yaml
seeds: [0, 1]
curves: 1
settings: [{name: slow, set: {train.learning_rate: 0.001}}, {name: fast}]
methods:
  - {name: %s, set: {mining.miner: random}}
  - {name: POEM, set: {mining.miner: thompson}, paper: {fast: {fpr95: 2.54}}}
""" % (json.dumps(WORSE), json.dumps(WORSE))
FLAT = """
data: {train: 'world2d:train:60', test: 'world2d:test:30', outliers: 'world2d:outliers:60', ood: ['ring=world2d:ood:20'],
       size: 1, validation: 0.1}
augment: {padding: 0, flip: false}
outliers: {padding: 0, flip: false}
network: {name: mlp, mean: [0, 0], std: [1, 1]}
mining: {pool: 50, select: 30}
train: {epochs: 3, learning_rate: 0.01}
"""


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def read_npy(path):
    """A one-dimensional float32 array, by the format's description."""
    data = pathlib.Path(path).read_bytes()
    check(data[:6] == b"\x93NUMPY" and b"'<f4'" in data[:128], f"{path} is not a float32 array")
    (header,) = struct.unpack("<H", data[8:10])
    return array.array("f", data[10 + header:])


def write_npy(path, values):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117).encode() + b"\n" +
                                   array.array("f", values).tobytes())


class Report:
    """What the open page says, beside what the run's own files say."""

    def __init__(self, browser, run):
        self.browser, self.run = browser, run
        names = ["id"] + list(json.loads((run / "results.json").read_text())["sets"])
        self.scores = {name: read_npy(run / "scores" / f"{name}.npy") for name in names}

    def threshold(self):
        return float(self.browser.run("return document.getElementById('threshold-value').value"))

    def expect_counts(self, moved_by):
        """The table and the sentence agree with counts made here, at the threshold that the page shows."""
        threshold = self.threshold()
        rows = self.browser.run("return [...document.querySelectorAll('#threshold-table tbody tr')]"
                                ".map((row) => [...row.cells].map((cell) => cell.textContent))")
        check(len(rows) == len(self.scores) - 1, f"{len(rows)} rows for {len(self.scores) - 1} sets")
        for name, fpr, kept, rejected in rows:
            above = sum(score >= threshold for score in self.scores[name])
            total = len(self.scores[name])
            expected = [f"{100 * above / total:.2f}{PERCENT}", str(above), str(total - above)]
            check([fpr, kept, rejected] == expected,
                  f"{moved_by}: {name} at {threshold}: {fpr, kept, rejected}, not {expected}")
        above = sum(score >= threshold for score in self.scores["id"])
        sentence = self.browser.run("return document.getElementById('threshold-summary').textContent")
        total = len(self.scores["id"])
        words = f"Keeps {100 * above / total:.1f}{PERCENT} of the ID images ({above} of {total})"
        check(words in sentence, f"{moved_by}: '{words}' is not in '{sentence}'")


def poem(program, *arguments):
    done = subprocess.run([program, "--threads", "2", "--quiet", *map(str, arguments)], capture_output=True, text=True)
    check(done.returncode == 0, f"poem {arguments}: {done.stderr}")


def check_figures(browser, least):
    """Every plot has marks, and tells in words and as a table what it shows."""
    figures = browser.run("""
        return [...document.querySelectorAll("figure.plot")].map((figure) => {
          const svg = figure.querySelector("svg[role=img]");
          return {title: figure.querySelector("figcaption").textContent, label: svg.getAttribute("aria-label"),
                  marks: [...svg.querySelectorAll(".series, .area, .bar, .dot")].filter(
                    (mark) => mark.getAttribute("d") !== "").length,
                  broken: /NaN|undefined/.test(svg.outerHTML), table: figure.querySelector("details") !== null,
                  width: svg.getBoundingClientRect().width};
        })""")
    check(len(figures) >= least, f"only {len(figures)} plots")
    for plot in figures:
        check(plot["marks"] > 0, f'{plot["title"]}: no marks')
        check(plot["label"] and plot["table"], f'{plot["title"]}: no description or no table')
        check(not plot["broken"], f'{plot["title"]}: NaN or undefined in its marks')
        check(plot["width"] > 200, f'{plot["title"]}: {plot["width"]} pixels wide')


def check_layout(browser, what):
    """Plots of a row are level, marks stand inside the picture and none is cut, a figure and its sign stay together."""
    ragged = browser.run("""
        return [...document.querySelectorAll(".aligned")].flatMap((grid) => {
          const rows = new Map();
          for (const plot of grid.children) {
            const row = plot.getBoundingClientRect().top;
            rows.set(row, [...(rows.get(row) ?? []), plot]);
          }
          return [...rows.values()].filter((plots) => new Set(plots.map(
            (plot) => Math.round(plot.querySelector(".picture").getBoundingClientRect().top))).size > 1)
            .map((plots) => plots.map((plot) => plot.querySelector("figcaption").textContent).join(", "));
        })""")
    check(not ragged, f"{what}: not level: {ragged}")
    cut = browser.run("""
        return [...document.querySelectorAll(".plot .picture circle, .plot .picture .series")].filter((mark) => {
          const frame = mark.closest("svg").getBoundingClientRect(), box = mark.getBoundingClientRect();
          const outside = box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
            box.bottom > frame.bottom + 1;
          return frame.width > 0 && (outside || (mark.tagName === "circle" && mark.closest("[clip-path]")));
        }).map((mark) => mark.closest("figure").querySelector("figcaption").textContent)""")
    check(not cut, f"{what}: marks are cut in {cut}")
    loose = browser.run("return document.body.innerText.match(/.*[0-9] %.*/g)")
    check(not loose, f"{what}: a line may break before % in {loose}")


def check_plots(browser):
    """Every piece is drawn, has marks, and tells in words and as a table what it shows."""
    plots = browser.run("""
        return [...document.querySelectorAll("[data-piece]")].map(
          (place) => [place.dataset.piece, place.querySelectorAll("svg, canvas").length])""")
    check(len(plots) == 7, f"{len(plots)} pieces")
    for piece, count in plots:
        check(count > 0, f"piece {piece} shows nothing")
    check_figures(browser, 15)
    check_layout(browser, "report")
    blank = browser.run("""
        return [...document.querySelectorAll(".gallery canvas")].filter((canvas) => {
          const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(data).size < 3;
        }).length""")
    check(blank == 0, f"{blank} tiles of the galleries are empty")


def check_threshold(browser, report):
    report.expect_counts("at first")
    slider = browser.driver.find_element(By.ID, "threshold")
    before = report.threshold()
    slider.send_keys(Keys.ARROW_RIGHT * 30)
    check(report.threshold() > before, "the keyboard does not move the threshold")
    report.expect_counts("keyboard")
    scores = sorted(report.scores["digits"])
    field = browser.driver.find_element(By.ID, "threshold-value")
    for value in (scores[10], scores[0] - 1, scores[-1] + 1):  # equal to a score, below and above all
        field.clear()
        field.send_keys(repr(value), Keys.ENTER)
        check(report.threshold() == value, f"{value!r} was typed, the threshold is {report.threshold()!r}")
        report.expect_counts("typed")
        check_layout(browser, f"threshold {value}")
    area = browser.driver.find_element(By.CSS_SELECTOR, "rect.drag")
    seen = set()
    for offset in (-60, 15, 40):
        browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", area)
        pointer = ActionChains(browser.driver).move_to_element(area)
        pointer.click_and_hold().move_by_offset(offset, 5).release().perform()
        seen.add(report.threshold())
        report.expect_counts("dragged")
    check(len(seen) == 3, f"dragging to three places gave thresholds {seen}")
    button = browser.driver.find_element(By.XPATH, f"//button[text()='95{PERCENT} of ID kept']")
    browser.run("arguments[0].click()", button)
    ids = sorted(report.scores["id"], reverse=True)
    last_kept = ids[-(-95 * len(ids) // 100) - 1]
    check(report.threshold() == last_kept, "95 % of ID: not the largest threshold that keeps them")
    report.expect_counts("button")


def check_controls(browser):
    """Tabs by arrow keys, frames by slider, tables by a press on their titles."""
    tab = browser.driver.find_element(By.CSS_SELECTOR, "[role=tab][aria-selected=true]")
    panel = tab.get_attribute("aria-controls")
    browser.run("arguments[0].focus()", tab)
    tab.send_keys(Keys.ARROW_RIGHT)
    check(browser.run("return document.getElementById(arguments[0]).hidden", panel), "the arrow key changes no tab")
    slider = browser.driver.find_element(By.CSS_SELECTOR, "input[aria-label='Epoch of the mined outliers']")
    slider.send_keys(Keys.HOME)
    check("epoch 1" in slider.get_attribute("aria-valuetext"), "the slider of the mined outliers does not move")
    column = ("return [...document.querySelector('table.sortable').tBodies[0].rows]"
              ".map((row) => row.cells[1].textContent)")
    press = "document.querySelector('table.sortable').tHead.rows[0].cells[1].querySelector('button').click()"
    browser.run(press)
    up = [float(cell) for cell in browser.run(column)]
    browser.run(press)
    down = [float(cell) for cell in browser.run(column)]
    check(up == sorted(up) and down == sorted(down, reverse=True), f"sorting gives {up} and {down}")
    shown = browser.run("""return [...document.querySelectorAll("table.sortable")[0].querySelectorAll("th button")].filter(
        (button) => getComputedStyle(button, "::after").opacity > 0).length""")
    check(shown == 1, f"{shown} columns say that the table is sorted by them")


def check_looks(browser, path):
    """No serious finding of axe, nothing wider than the screen: light, dark, on a phone."""
    for width, dark in ((1200, False), (1200, True), (360, False)):
        browser.look(width, dark=dark)
        browser.open(path)
        findings = browser.axe()
        check(not findings, f"axe at {width} pixels{' in the dark' if dark else ''}:\n" + "\n".join(findings))
        wide = browser.run("return document.documentElement.scrollWidth")
        check(wide <= width, f"the page is {wide} pixels wide on a screen of {width}")
    browser.look()


def check_unharmed(browser, path, what):
    """Whatever names hold, no script of theirs runs, nothing is fetched, nothing complains."""
    browser.open(path)
    check(not browser.complaints(), f"{what}: the console says {browser.complaints()}")
    check(browser.run("return document.querySelectorAll('img, marquee').length") == 0, f"{what}: a name became markup")
    check(browser.run("return document.scripts.length") == 2, f"{what}: a name became a script")
    own = ("data:", "blob:", pathlib.Path(path).resolve().as_uri())
    asked = [url for url in browser.requests() if not url.startswith(own)]
    check(not asked, f"{what}: asked for {asked}")


def make_hostile(run, copy):
    """The run as somebody would leave it who wants to harm the reader."""
    shutil.copytree(run, copy)
    for file in (copy / "gallery").glob("*.json"):
        sheet = json.loads(file.read_text())
        sheet["tiles"] = [dict(tile, **{"class": WORSE, "predicted": WORSE, "set": WORSE}) for tile in sheet["tiles"]]
        file.write_text(json.dumps(sheet))
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["loss"] = (0.3, 0.1 + 0.2)[number % 2]  # neighbours among floating-point numbers: no axis has ticks between
        for entry in line["mining"]["classes"]:
            entry["name"] = WORSE
    (copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (copy / "config.yaml").write_text((copy / "config.yaml").read_text() + f"note: {json.dumps(WORSE)}\n")
    results = json.loads((copy / "results.json").read_text())
    results["sets"][WORSE] = results["sets"]["digits"]
    (copy / "results.json").write_text(json.dumps(results))


def check_cut_short(browser, program, run, folder):
    """A run that was killed after its first epoch."""
    cut = folder / "cut"
    shutil.copytree(run, cut)
    for name in ("results.json", "detector.safetensors", "report.html"):
        (cut / name).unlink()
    shutil.rmtree(cut / "scores")
    first = (cut / "metrics.jsonl").read_text().splitlines()[0]
    (cut / "metrics.jsonl").write_text(first + "\n")
    poem(program, "report", cut)
    check_unharmed(browser, cut / "report.html", "cut short")
    words = browser.run("return document.getElementById('s1').textContent")
    check(words.count("not finished") == 1 and f"poem train --resume {cut}" in words, f"cut short: {words}")
    check_figures(browser, 8)
    check_layout(browser, "cut short")
    check_looks(browser, cut / "report.html")


def check_size_and_speed(browser, program, run, folder):
    """6 OOD sets of 10,000 scores: written in 2 s, painted in 1 s, 8 MB at most. The best of three, and of the writing
    the processor's time: others use the machine too."""
    big = folder / "big"
    shutil.copytree(run, big)
    rng = random.Random(1)
    figures = json.loads((big / "results.json").read_text())["sets"]["digits"]
    (big / "results.json").write_text(json.dumps({"sets": {f"set{i}": figures for i in range(6)}, "id_accuracy": 0.9}))
    write_npy(big / "scores/id.npy", [rng.gauss(8, 2) for _ in range(10000)])
    for i in range(6):
        write_npy(big / f"scores/set{i}.npy", [rng.gauss(i, 2) for _ in range(10000)])
    seconds, paints = [], []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        poem(program, "report", big)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        browser.open(big / "report.html")
        paints.append(browser.first_paint())
    check(not browser.complaints(), "the large report complains")
    megabytes = (big / "report.html").stat().st_size / 1e6
    print(f"6 x 10,000 scores: written in {min(seconds):.2f} s, first paint after {min(paints):.2f} s, "
          f"{megabytes:.2f} MB")
    check(min(seconds) < 2, f"took {seconds} s to write")
    check(min(paints) < 1, f"took {paints} s to paint")
    check(megabytes < 8, f"{megabytes} MB")


def check_study(browser, program, folder):
    """A study of two settings with hostile names: curves, intervals and times for each."""
    (folder / "flat.yaml").write_text(FLAT)
    (folder / "study.yaml").write_text(STUDY)
    poem(program, "study", folder / "study.yaml", "--out", folder / "study", "--jobs", 2)
    page = folder / "study/report.html"
    check_unharmed(browser, page, "study")
    check_figures(browser, 6)
    check_layout(browser, "study")
    check_looks(browser, page)
    check(not browser.complaints(), "the study's report complains")


def check_demo(browser, program, folder):
    """The page that `poem demo` leaves, of a demo made small."""
    small = [f"data.{key}" for key in ("train=world:train:64", "test=world:test:40", "outliers=world:procedural:64",
                                       "ood=[digits=world:digits:30]")]
    small += ["data.size=16", "mining.pool=64", "train.epochs=1", "train.batch=16", "train.outlier_batch=16"]
    poem(program, "demo", "--seeds", 1, "--out", folder / "demo", *(word for one in small for word in ("--set", one)))
    page = folder / "demo/report.html"
    check_unharmed(browser, page, "demo")
    check_layout(browser, "demo")
    check_looks(browser, page)
    check(not browser.complaints(), "the demo's report complains")


def test(program):
    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        folder = pathlib.Path(place)
        (folder / "config.yaml").write_text(CONFIG)
        run = folder / "run"
        poem(program, "train", folder / "config.yaml", "--out", run)
        page = run / "report.html"
        check(page.stat().st_size < 5e6, f"{page.stat().st_size} bytes")
        check_unharmed(browser, page, "report")
        check_plots(browser)
        check_threshold(browser, Report(browser, run))
        check_controls(browser)
        check(not browser.complaints(), "the console complains after all that")
        check_looks(browser, page)
        make_hostile(run, folder / "hostile")
        poem(program, "report", folder / "hostile")
        check_unharmed(browser, folder / "hostile/report.html", "hostile run")
        poem(program, "report", run, folder / "hostile", "--out", folder / "compared.html")
        check_unharmed(browser, folder / "compared.html", "comparison")
        check_layout(browser, "comparison")
        check_looks(browser, folder / "compared.html")
        check_cut_short(browser, program, run, folder)
        check_study(browser, program, folder)
        check_demo(browser, program, folder)
        check_size_and_speed(browser, program, run, folder)


def write_screenshots(program, run, folder):
    page = pathlib.Path(run) / "report.html"
    poem(program, "report", run)
    with Browser() as browser:
        browser.open(page)
        browser.screenshot(folder / "report-light.png", 1200, 1320)
        browser.screenshot(folder / "report-dark.png", 1200, 1320, dark=True)
        browser.screenshot(folder / "report-phone.png", 390, 1320)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        test(sys.argv[1])
    else:
        write_screenshots(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
