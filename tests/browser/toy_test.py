"""Opens the page of the two-dimensional example in a real browser: toy_test.py PROGRAM"""
import json
import pathlib
import sys
import tempfile
import time

from browser import Browser
from report_test import check, check_looks, check_unharmed, poem, read_npy
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


def areas(folder):
    """Of the ID region after each epoch, from the files beside the page."""
    toy = json.loads((folder / "toy.json").read_text())
    scores, side = read_npy(folder / "scores.npy"), toy["grid"]["side"]
    cell = ((toy["grid"]["high"] - toy["grid"]["low"]) / side) ** 2
    return [cell * sum(score >= threshold for score in scores[i * side * side:(i + 1) * side * side])
            for i, threshold in enumerate(toy["thresholds"])]


def check_figures(browser):
    figures = browser.run("""
        return [...document.querySelectorAll("figure.plot")].map((figure) => {
          const svg = figure.querySelector("svg[role=img]");
          return {title: figure.querySelector("figcaption").textContent, label: svg.getAttribute("aria-label"),
                  marks: [...svg.querySelectorAll(".series, .marks")].filter((mark) => mark.getAttribute("d") !== "").length,
                  broken: /NaN|undefined/.test(svg.outerHTML)};
        })""")
    titles = [figure["title"] for figure in figures]
    for title in ("(a) ID data only", "(b) Sample space", "(c) Epoch 1", "(d) Epoch 4", "(e) Epoch 30"):
        check(title in titles, f"'{title}' is not among {titles}")
    check(len(figures) == 9, f"{len(figures)} figures: {titles}")
    for figure in figures:
        check(figure["marks"] > 0 and figure["label"] and not figure["broken"], f"{figure} is not whole")


def check_animation(browser, expected):
    slider = browser.driver.find_element(By.CSS_SELECTOR, "input[aria-label=Epoch]")
    button = browser.driver.find_element(By.XPATH, "//button[text()='Play']")
    shown = lambda: slider.get_attribute("aria-valuetext")
    title = lambda: slider.find_element(By.XPATH, "./ancestor::div[1]/following-sibling::div//figcaption").text
    time.sleep(1)
    check(slider.get_attribute("value") == "0", "it plays without being asked")
    for i, area in enumerate(expected):
        check(shown() == f"epoch {i + 1}, area of the ID region {area:.1f}", f"'{shown()}', not {area} in epoch {i + 1}")
        check(title() == f"Epoch {i + 1}", f"'{title()}' in epoch {i + 1}")
        slider.send_keys(Keys.ARROW_RIGHT)
    check(slider.get_attribute("value") == str(len(expected) - 1), "the arrow key goes beyond the last epoch")
    button.send_keys(Keys.SPACE)  # from the beginning
    time.sleep(1.7)
    check(0 < int(slider.get_attribute("value")) < len(expected) - 1, "the animation does not move")
    button.send_keys(Keys.SPACE)
    paused = shown()
    time.sleep(1)
    check(shown() == paused, "it does not pause")
    slider.send_keys(Keys.HOME)
    check(title() == "Epoch 1", "Home does not go back to the first epoch")


def main(program):
    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        folder = pathlib.Path(place) / "toy"
        poem(program, "toy", "--out", folder)
        page = folder / "report.html"
        check(page.stat().st_size < 3e6, f"{page.stat().st_size} bytes")
        check_unharmed(browser, page, "toy")
        check_figures(browser)
        check_animation(browser, areas(folder))
        check(not browser.complaints(), "the console complains after all that")
        check_looks(browser, page)


if __name__ == "__main__":
    main(sys.argv[1])
