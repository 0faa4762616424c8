"""Opens the page of poem serve in a real browser: serve_test.py PROGRAM"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

from browser import Browser
from report_test import HOSTILE_FILE, TINY, check, poem
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait



def start(program, *arguments):
    """The service and its address."""
    service = subprocess.Popen([program, "--threads", "1", "serve", *map(str, arguments), "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return service, re.search(r"http\S+", service.stdout.readline())[0]


def judged(url, data, token=None):
    request = urllib.request.Request(url + "v1/predict", data=data)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    return json.load(urllib.request.urlopen(request))["results"][0]


def shown(browser, count):
    """Verdict, name and detail of each image on the page, the newest first."""
    WebDriverWait(browser.driver, 30).until(lambda _: browser.run("return document.querySelectorAll('article').length") >= count)
    return browser.run("""return [...document.querySelectorAll('article')].map((article) =>
        [...article.querySelectorAll('p')].map((line) => line.textContent).concat(article.querySelectorAll('circle').length))""")


def paste(browser, path):
    browser.run("""
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(arguments[1]), (c) => c.charCodeAt(0))], arguments[0]));
        document.dispatchEvent(new ClipboardEvent('paste', {clipboardData: transfer}))""",
                path.name, base64.b64encode(path.read_bytes()).decode())


def check_kinds(browser):
    """What is known decides the colour, not the word; and pictures that were drawn are not kept a second time."""
    for known, kind in ((True, "known"), (False, "unknown"), (None, "unsure")):
        shows = browser.run("""show({name: 'a', verdict: 'unknown', known: arguments[0], predicted: null, score: 1, p_value: null},
                                     new File(['a'], 'a'));
                               return document.querySelector('.verdict').className""", known)
        check(shows == f"verdict {kind}", f"{known}: {shows}")
        browser.run("document.querySelector('article').remove()")
    kept = browser.driver.execute_async_script("""
        const done = arguments[0], pictures = [...document.querySelectorAll('article img')];
        Promise.all(pictures.map((picture) => fetch(picture.src).then(() => 1, () => 0))).then((kept) => done(kept.join('')))""")
    check(set(kept) == {"0"}, f"kept pictures: {kept}")


def check_failures(browser, url, service, image):
    """The service ends while the page is open."""
    browser.driver.get(url)
    WebDriverWait(browser.driver, 30).until(lambda _: "8 classes" in browser.driver.page_source)
    service.terminate()
    service.wait(20)
    browser.driver.find_element(By.ID, "files").send_keys(str(image))
    said = "return document.querySelector('#results .error')?.textContent ?? ''"
    WebDriverWait(browser.driver, 30).until(lambda _: "cannot be reached" in browser.run(said))
    browser.run("model = null; return loadModel()")
    check("cannot be reached" in browser.run("return at('about').textContent"), "loading fails in silence")


def check_page(browser, url, folder):
    images = sorted((folder / "photos/test").rglob("*.png"))[:3]
    browser.driver.get(url)
    WebDriverWait(browser.driver, 30).until(lambda _: "8 classes" in browser.driver.page_source)
    browser.driver.find_element(By.ID, "files").send_keys("\n".join(map(str, images)))
    for line, path in zip(reversed(shown(browser, 3)), images):
        result = judged(url, path.read_bytes())
        check(line[0] == result["verdict"] and line[1] == path.name, f"{line}, not {result}")
        check(f"score {result['score']:.2f}" in line[2] and line[3] == 1, f"{line}, not {result}")
    paste(browser, images[0].rename(images[0].with_name(HOSTILE_FILE)))
    bad = folder / "bad.png"
    bad.write_text("no image")
    check(shown(browser, 4)[0][1] == HOSTILE_FILE, "a name became markup")
    paste(browser, bad)
    check(shown(browser, 5)[0][0] == "cannot be read", f"a bad image: {shown(browser, 5)[0]}")
    browser.run("model.threshold += 1; model.held_out.counts = []")  # as if the service had taken up another detector since
    paste(browser, images[1])
    check(shown(browser, 6)[0][3] == 1, "the histogram is that of an earlier detector")
    refused = [text for text in browser.complaints() if "422" not in text]  # the browser tells of the bad image, too
    check(not refused, f"the console says {refused}")
    check(all(asked.startswith((url, "blob:", "data:")) for asked in browser.requests()), "the page asks elsewhere")
    check_kinds(browser)
    for width, dark in ((1200, False), (1200, True), (360, False)):
        browser.look(width, dark=dark)
        check(not browser.axe(), f"axe at {width}: {browser.axe()}")
        check(browser.run("return document.documentElement.scrollWidth") <= width, f"wider than {width} pixels")
    browser.look()


def check_token(browser, url, image):
    browser.driver.get(url)
    field = browser.driver.find_element(By.ID, "secret")
    WebDriverWait(browser.driver, 30).until(lambda _: field.is_displayed())
    field.send_keys("secret\t")
    WebDriverWait(browser.driver, 30).until(lambda _: "8 classes" in browser.driver.page_source)
    browser.driver.find_element(By.ID, "files").send_keys(str(image))
    check(shown(browser, 1)[0][0] == judged(url, image.read_bytes(), "secret")["verdict"], "with a token")


def main(program):
    with tempfile.TemporaryDirectory() as place, Browser() as browser:
        folder = pathlib.Path(place)
        (folder / "image.yaml").write_text(TINY)
        (folder / "token").write_text("secret\n")
        poem(program, "train", folder / "image.yaml", "--out", folder / "run")
        poem(program, "world", folder / "photos", "--train", 8, "--test", 40, "--outliers", 24, "--ood", 8)
        for arguments, look in (((), lambda url: check_page(browser, url, folder)),
                                (("--token-file", folder / "token"),
                                 lambda url: check_token(browser, url, next((folder / "photos/ood").rglob("*.png"))))):
            service, url = start(program, folder / "run", *arguments)
            try:
                look(url)
            finally:
                service.terminate()
                check(service.wait(20) == 0, "the service did not end well")
        service, url = start(program, folder / "run")
        check_failures(browser, url, service, next((folder / "photos/ood").rglob("*.png")))


if __name__ == "__main__":
    main(sys.argv[1])
