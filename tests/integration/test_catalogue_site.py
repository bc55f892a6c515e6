"""The catalogue's web pages in a real browser: search, filter, open a page, copy an example; hostile text stays
inert.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.text.page import render_html
from hpcmod.catalogue.values.record import CatalogueRecord, Check
from hpcmod.catalogue.visible.documentation import make_documentation, page_files, write_documentation
from hpcmod.core.values.facts import Package
from hpcmod.notebooks.ondemand import render_yaml
from tests.browser import Browser, run_browser, why_no_browser
from tests.catalogues import make_catalogue, make_record
from tests.golden import RENEW, renewing
from tests.plans import HOSTILE
from tests.stack import CHECKOUT

pytestmark = pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser())

SCREENSHOT = CHECKOUT / "docs" / "how-to" / "catalogue-site.png"
TITLE = "Containers of an example"
NEW = "PyTorch/2.7.1-rocm-6.2.4-singularity"
OLD = "PyTorch/2.6.0-rocm-6.2.4-singularity"
GONE = "PyTorch/2.2.0-rocm-5.6.1-singularity"

ADVISORY = """
title = "It hangs on two nodes and more"
text = "An example of a known problem."
source = "https://example.org/issues/1"
issued = 2026-01-01
expires = 2099-01-01
[match]
modules = ["PyTorch/2.6*"]
[match.host]
libfabric = { path = "/opt/cray/libfabric/{version}", version = ">=1.22" }
[cure]
unset = ["NCCL_NET_GDR_LEVEL"]
"""


def packages(**versions: str) -> tuple[Package, ...]:
    return tuple(Package(name.replace("_", "-"), version) for name, version in sorted(versions.items()))


def example(module: str, **fields: object) -> CatalogueRecord:
    record = make_record(module)
    check = Check("python -c 'import torch'", passed=True, when="2026-10-01T10:00:00Z", sha256=record.sha256)
    common = {
        "size": 21_345_000_000,
        "site": "lumi",
        "commands": ("python",),
        "checks": (check,),
        "architecture": "amd64",
    }
    return make_record(
        module, **{**common, "published": "2026-10-01T10:00:00Z", "homepage": "https://pytorch.org/", **fields}
    )


RECORDS = (
    example(
        NEW,
        description="PyTorch 2.7.1 for AMD GPUs (ROCm 6.2.4)",
        aliases=("latest", "stable"),
        stack=(("rocm", "6.2.4"), ("libfabric", "1.15.2")),
        packages=packages(flash_attn="2.7.4", numpy="2.1.0", torch="2.7.1+rocm6.2.4", transformers="4.51.3"),
        environment=(("ROCM_VERSION", "6.2.4"),),
        labels=(("org.opencontainers.image.title", "PyTorch"),),
    ),
    example(
        OLD,
        description="PyTorch 2.6.0 for AMD GPUs (ROCm 6.2.4)",
        stack=(("rocm", "6.2.4"),),
        packages=packages(apex="0.1", numpy="2.1.0", torch="2.6.0+rocm6.2.4"),
        state="deprecated",
        until="2027-03-01",
        successor=NEW,
        reason="it hangs",
    ),
    example(GONE, description="PyTorch 2.2.0", state="retired", successor=NEW, packages=()),
    example("jax/0.5.3-rocm-6.3.4", description="JAX for AMD GPUs", packages=packages(jax="0.5.3", numpy="2.1.0")),
    example(
        "vLLM/0.8.5-cuda-12.8",
        description="Serves models",
        site="cray-ex-gh200",
        packages=packages(vllm="0.8.5", flash_attn="2.7.4"),
    ),
)


def write_site(catalogue: Catalogue, directory: Path) -> Path:
    documentation = make_documentation([catalogue], {"HPCMOD_SITE": "generic"}, title=TITLE, now=time.time())
    write_documentation(render_html(documentation, page_files()), directory)
    return directory


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with run_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a catalogue with five containers on two machines."""
    top = tmp_path_factory.mktemp("site")
    catalogue = make_catalogue(top / "catalogue", *RECORDS)
    catalogue.advisories.mkdir()
    (catalogue.advisories / "hangs.toml").write_text(ADVISORY)
    return write_site(catalogue, top / "site")


@pytest.fixture
def listing(browser: Browser, site: Path) -> Browser:
    """The browser with the list open and nothing left over from earlier pages."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get((site / "index.html").as_uri())
    return browser


VISIBLE = """
const titles = [...document.querySelectorAll("#containers > li h3")];
return titles.filter(title => title.checkVisibility()).map(title => title.textContent);
"""


def shown(browser: Browser) -> list[str]:
    """Return the containers that the list shows, in a single call: one call per row takes half a minute for 2000
    rows.
    """
    # textContent, as innerText is empty until the browser has drawn a row that scrolled into view
    return ["/".join(title.split()) for title in browser.execute_script(VISIBLE)]


def search(browser: Browser, text: str) -> list[str]:
    field = browser.find_element(By.ID, "query")
    field.clear()
    field.send_keys(text)
    return shown(browser)


def complaints(browser: Browser) -> list[str]:
    """Return the browser's log: blocked scripts, missing files, errors."""
    return [entry["message"] for entry in browser.get_log("browser")]


def test_the_list_shows_all_containers_that_are_not_retired_newest_version_first(listing: Browser) -> None:
    assert shown(listing) == ["jax/0.5.3-rocm-6.3.4", NEW, OLD, "vLLM/0.8.5-cuda-12.8"]
    assert listing.find_element(By.ID, "count").text == "4 of 5 containers"
    assert complaints(listing) == []


SEARCHES = {
    "pytorch": [NEW, OLD],  # a name, in any case
    "PyTorch 2.7": [NEW],  # a name and a version
    "flash-attn": [NEW, "vLLM/0.8.5-cuda-12.8"],  # a package inside
    "torch 2.6.0+rocm": [OLD],  # a package and its version
    "flash-attn rocm": [NEW],  # a package, and what it is built on
    "stable": [NEW],  # an alias
    "nothing-of-that-kind": [],
}


def test_search_finds_names_versions_and_packages_until_escape_clears_it(listing: Browser) -> None:
    assert {text: search(listing, text) for text in SEARCHES} == SEARCHES
    assert listing.find_element(By.ID, "none").is_displayed()
    search(listing, "flash")
    hits = [hit.text for hit in listing.find_elements(By.CLASS_NAME, "hits") if hit.is_displayed()]
    assert hits == ["has flash-attn 2.7.4"] * 2
    listing.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert len(shown(listing)) == 4
    assert not listing.find_element(By.ID, "none").is_displayed()


def test_machine_and_state_filter_the_list(listing: Browser) -> None:
    Select(listing.find_element(By.ID, "machine")).select_by_visible_text("cray-ex-gh200")
    assert shown(listing) == ["vLLM/0.8.5-cuda-12.8"]
    Select(listing.find_element(By.ID, "machine")).select_by_visible_text("lumi")
    listing.find_element(By.CSS_SELECTOR, "input[value=retired]").click()
    listing.find_element(By.CSS_SELECTOR, "input[value=published]").click()
    assert shown(listing) == [OLD, GONE]


def test_an_address_restores_a_search(listing: Browser, site: Path) -> None:
    search(listing, "flash")
    Select(listing.find_element(By.ID, "machine")).select_by_visible_text("lumi")
    address = listing.current_url
    listing.get("about:blank")
    listing.get(address)
    assert shown(listing) == [NEW]


def test_the_keyboard_alone_is_enough(listing: Browser) -> None:
    listing.find_element(By.TAG_NAME, "body").send_keys("/")
    listing.switch_to.active_element.send_keys("2.7.1")
    assert shown(listing) == [NEW]
    for _ in range(20):
        listing.switch_to.active_element.send_keys(Keys.TAB)
        if listing.switch_to.active_element.tag_name == "a":
            break
    listing.switch_to.active_element.send_keys(Keys.ENTER)
    WebDriverWait(listing, 30).until(lambda page: NEW in page.title)


def open_page(browser: Browser, module: str) -> Browser:
    name, _, version = module.partition("/")
    for link in browser.find_elements(By.CSS_SELECTOR, "#containers a"):
        if link.text == f"{name} {version}":
            # A row is laid out when it scrolls into view, which may move it away from below the pointer.
            link.send_keys(Keys.ENTER)
            WebDriverWait(browser, 30).until(lambda page: module in page.title)
            return browser
    raise AssertionError(f"no link to {module}")


def test_an_example_is_copied_by_its_button(listing: Browser) -> None:
    page = open_page(listing, NEW)
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.find_element(By.CSS_SELECTOR, "button[aria-label^='Copy: A job']").click()
    WebDriverWait(page, 30).until(lambda _: "Copied" in [one.text for one in page.find_elements(By.CLASS_NAME, "said")])
    text = page.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert text.startswith("#!/bin/bash\n")
    assert f"module load {NEW}" in text
    assert "--cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000" in text  # the masks of this container's machine


def test_an_example_is_copied_where_a_browser_has_no_clipboard_for_files(listing: Browser) -> None:
    page = open_page(listing, NEW)
    page.execute_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.find_element(By.CSS_SELECTOR, "button[aria-label^='Copy: Load it']").click()
    WebDriverWait(page, 30).until(lambda _: "Copied" in [one.text for one in page.find_elements(By.CLASS_NAME, "said")])
    page.find_element(By.ID, "narrow").send_keys(Keys.CONTROL, "v")
    assert page.find_element(By.ID, "narrow").get_property("value").startswith(f"module load {NEW}")


def test_a_page_lists_the_contents_which_can_be_narrowed_and_the_changes(listing: Browser) -> None:
    page = open_page(listing, NEW)
    text = page.find_element(By.TAG_NAME, "main").text
    for part in ("torch", "2.7.1+rocm6.2.4", f"Changes since {OLD.partition('/')[2]}", "apex", "21.3 GB", "passed"):
        assert part in text
    rows = [row.text for row in page.find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert "apex 0.1 \u2013" in rows
    assert "torch 2.6.0+rocm6.2.4 2.7.1+rocm6.2.4" in rows
    page.find_element(By.ID, "narrow").send_keys("flash")
    left = [one.text for one in page.find_elements(By.CSS_SELECTOR, "#package-list > li") if one.is_displayed()]
    assert [" ".join(one.split()) for one in left] == ["flash-attn 2.7.4"]


def test_a_deprecated_container_shows_its_successor_and_its_problem(listing: Browser) -> None:
    page = open_page(listing, OLD)
    text = page.find_element(By.TAG_NAME, "main").text
    for part in (
        "It may be retired on or after 2027-03-01.",
        "it hangs",
        "It hangs on two nodes",
        "unset NCCL_NET_GDR_LEVEL",
    ):
        assert part in text
    page.find_element(By.LINK_TEXT, f"The page of {NEW}").click()
    WebDriverWait(page, 30).until(lambda now: NEW in now.title)


@pytest.mark.parametrize(("module", "scheme"), [("", "light"), ("", "dark"), (NEW, "dark"), (OLD, "light")])
def test_the_pages_are_accessible(listing: Browser, module: str, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    listing.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page = open_page(listing, module) if module else listing
    found = Axe().run(page)["violations"]
    listing.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [f"{one['id']}: {node['html'][:100]}" for one in found for node in one["nodes"]] == []


def test_without_scripts_the_list_is_still_there(browser: Browser, site: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((site / "index.html").as_uri())
        assert len(shown(browser)) == len(RECORDS)
        assert not browser.find_element(By.ID, "search").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


ATTACKS = {  # tests/unit/catalogue/text/test_page.py has all of HOSTILE
    **{name: HOSTILE[name] for name in ("quotes", "control", "comments")},
    "script": "<script>window.pwned = 1; alert(1)</script>",
    "attribute": '"><img src=x onerror="window.pwned = 1; alert(1)"> \' onmouseover=\'window.pwned=1',
    "end of a script": "</script><script>window.pwned = 1</script>",
    "comment": "--><svg onload=alert(1)><!--",
    "address": "javascript:window.pwned=1//",
    "other site": "<link rel=stylesheet href=https://example.org/x.css><iframe src=https://example.org></iframe>",
    "end of a line": "x\u2028window.pwned = 1\u2029",
    "not a character": "\ufffe\uffff\ufdd0 \x85 \x9b31m",
    "a template": "{{ 7 * 7 }}${7 * 7}",
    "markdown": "[x](javascript:alert(1)) ![x](https://example.org/x.png) **b** `c` | d\n# e\n- f\n> g",
}


def hostile(number: int, text: str) -> CatalogueRecord:
    return make_record(
        f"Evil/{number}",
        site=text,
        description=text,
        homepage=text,
        reference=text,
        signature=text,
        reason=text,
        successor=text,
        state="deprecated",
        labels=((text, text),),
        environment=((text, text),),
        stack=((text, text),),
        packages=(Package(text, text), Package("</script><script>alert(1)", "1")),
        commands=(text,),
        checks=(Check(text, passed=False, when=text, sha256=""),),
        publisher=text,
        compat=text,
        sbom=text,
    )


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("hostile")
    return write_site(make_catalogue(top / "catalogue", *map(hostile, range(99), ATTACKS.values())), top / "site")


SHOWN = """
for (const details of document.querySelectorAll('details')) details.querySelector('summary').click();
return [
  window.pwned === undefined && !document.querySelector('img, svg, iframe'),
  [...document.querySelectorAll('[href], [src]')].map(e => e.href || e.src),
  performance.getEntriesByType('resource').map(one => one.name),
];
"""
"""Opens what is folded; returns whether no text became code, the links, and what was loaded."""


def test_hostile_texts_are_shown_and_never_run(browser: Browser, hostile_site: Path) -> None:
    pages = [hostile_site / "index.html", *sorted(hostile_site.glob("containers/*/*.html"))]
    assert len(pages) == 1 + len(ATTACKS)
    browser.get("about:blank")
    browser.get_log("browser")
    for page in pages:
        browser.get(page.as_uri())  # a dialog would make the next call fail
        is_safe, links, loaded = browser.execute_script(SHOWN)
        assert is_safe, page
        assert {link.partition(":")[0] for link in links} <= {"file", "https"}
        assert {name.partition(":")[0] for name in loaded} <= {"file"}
    assert complaints(browser) == []
    browser.get(pages[0].as_uri())
    search(browser, "onerror")
    assert ATTACKS["attribute"] in browser.find_element(By.ID, "containers").text


def test_hostile_texts_are_texts_in_an_app_for_open_ondemand(tmp_path: Path) -> None:
    texts = [
        *HOSTILE.values(),
        *ATTACKS.values(),
        "<%= 7 * 7 %>",
        "- a: *b",
        "!ruby/object:Gem::Installer x",
        "\ufeff",
        "\ud800",
    ]
    (tmp_path / "form.yml").write_text(render_yaml({"texts": texts}), encoding="utf-8")
    program = "puts JSON.generate(YAML.safe_load_file(ARGV[0]))"
    words = ["ruby", "-ryaml", "-rjson", "-e", program, str(tmp_path / "form.yml")]
    read = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["texts"]
    assert read == json.loads((tmp_path / "form.yml").read_text(encoding="utf-8"))["texts"]
    plain = {number: text for number, text in enumerate(texts) if text.replace("\n", "").isprintable()}
    assert {number: read[number] for number in plain} == plain


def test_every_page_is_valid_html(site: Path, hostile_site: Path) -> None:
    pages = [str(page) for top in (site, hostile_site) for page in top.rglob("*.html")]
    done = subprocess.run(["tidy", "-errors", "-quiet", *pages], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_hundred_containers_can_be_searched(browser: Browser, tmp_path: Path) -> None:
    records = [
        make_record(
            f"Tool{number % 100}/{number}", packages=(Package(f"package-{number}", "1.0"), Package("numpy", "2.1"))
        )
        for number in range(200)
    ]
    top = write_site(make_catalogue(tmp_path / "catalogue", *records), tmp_path / "site")
    browser.get((top / "index.html").as_uri())
    assert browser.find_element(By.ID, "count").text == "200 containers"
    assert search(browser, "package-134") == ["Tool34/134"]
    assert len(list(top.glob("containers/*/*.html"))) == 200


def test_odd_containers_have_pages_that_fit_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    many = tuple(Package("a-long-name-of-a-package-" * 4 + str(number), "1.0") for number in range(3000))
    records = (
        make_record("Many/1", packages=many),
        make_record(f"{'Long-name-' * 7}/{'9.' * 30}9", description="word" * 200, packages=()),
        make_record(
            "Arabic/1", description="\u062d\u0627\u0648\u064a\u0629 AMD (ROCm 6.2.4) \u0645\u0639", sif="a.sif"
        ),
        make_record("Nothing/1", description="", packages=(), python=""),
    )
    top = write_site(make_catalogue(tmp_path / "catalogue", *records), tmp_path / "site")
    narrow = {"width": 380, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        for page in (top / "index.html", *top.glob("containers/*/*.html")):
            browser.get(page.as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") == 380
            # what follows a long list of packages must not be far down the page
            assert browser.execute_script("return document.documentElement.scrollHeight") < 6000
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get((top / "containers" / "Arabic" / "1.html").as_uri())
    said = browser.find_element(By.CLASS_NAME, "lead")
    assert said.value_of_css_property("direction") == "rtl"


def with_text(picture: bytes, text: str) -> bytes:
    """Add a chunk with a text to a PNG, before the last one."""
    chunk = b"tEXt" + text.encode()
    return b"".join(
        (picture[:-12], (len(chunk) - 4).to_bytes(4, "big"), chunk, zlib.crc32(chunk).to_bytes(4, "big"), picture[-12:])
    )


@pytest.mark.golden
def test_the_screenshot_of_the_documentation_is_of_these_pages(listing: Browser) -> None:
    listing.set_window_size(900, 860)
    search(listing, "flash-attn")
    listing.execute_script("document.activeElement.blur()")
    page = listing.execute_script("return document.body.outerHTML") + page_files()["style.css"]
    undated = re.sub(r"\d{4}-\d\d-\d\d", "DATE", page)
    digest = hashlib.sha256(undated.encode()).hexdigest()  # of the page: each Chromium draws it in its own way
    if renewing() and digest.encode() not in SCREENSHOT.read_bytes():
        SCREENSHOT.write_bytes(with_text(listing.get_screenshot_as_png(), f"Source\0{digest}"))
    assert digest.encode() in SCREENSHOT.read_bytes(), f"{SCREENSHOT} shows other pages. {RENEW}"
    assert SCREENSHOT.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert SCREENSHOT.stat().st_size < 100_000
    listing.set_window_size(1200, 900)
