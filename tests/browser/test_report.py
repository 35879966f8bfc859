"""The HTML report in a real browser: no errors, filters work, phones, dark mode and paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from halfulp.conformance import Plan, check
from halfulp.conformance.report.html import write_html

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    plan = Plan(operators=("max_pool", "avg_pool", "conv"), dtypes=("float32", "float16"), cases=24)
    write_html(check(["halfulp", "torch", "onnxruntime", "numpy-naive"], plan, jobs=2), path)
    assert path.stat().st_size < 3_000_000
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any, report: Path) -> Iterator[Any]:
    """Open the report in a context of its own; the browser's complaints fail the test."""
    complaints: list[str] = []
    contexts = []

    def opened(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(report.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page: Any, name: str) -> None:
    """Keep a screenshot where one is asked for."""
    folder = os.environ.get("HALFULP_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_the_report_shows_every_subject(open_page: Any) -> None:
    page = open_page(viewport={"width": 1300, "height": 900})
    assert page.locator("#heat > div").count() == 4
    assert page.locator("#heat tbody tr").count() == 4 * 3
    assert page.locator("#histograms svg").count() == 3
    assert page.locator("#histograms rect").count() > 12
    assert page.locator(".chip.good b").all_text_contents() == ["halfulp"]
    heat = page.locator("#heat > div[data-subject=halfulp] td.tested")
    assert set(heat.all_text_contents()) == {"✓"}
    assert page.locator("#heat > div[data-subject=torch] td[data-failed]:not([data-failed='0'])").count() > 0
    picture(page, "desktop")


def test_filters_hide_what_does_not_fit(open_page: Any) -> None:
    page = open_page(viewport={"width": 1300, "height": 900})
    everything = page.locator(".finding:visible").count()
    page.select_option("#filter-operator", "conv")
    conv = page.locator(".finding:visible")
    assert 0 < conv.count() < everything
    assert set(conv.evaluate_all("nodes => nodes.map(n => n.dataset.operator)")) == {"conv"}
    assert page.locator("#heat tbody tr").count() == 4
    page.select_option("#filter-subject", "torch")
    assert page.locator("#heat > div").count() == 1
    assert page.locator(".compare thead th:visible").count() == 2
    page.select_option("#filter-aspect", "value")
    assert set(page.locator(".finding:visible .tag").all_text_contents()) == {"value", "rounding"}
    page.select_option("#filter-severity", "wrong")
    assert page.locator(".finding:visible").count() == 0
    page.select_option("#filter-severity", "rounding")
    page.fill("#filter-text", "one ulp")
    assert page.locator(".finding:visible").count() >= 1
    page.fill("#filter-text", "nothing says this")
    assert page.locator(".finding:visible").count() == 0
    page.click("#filter-clear")
    assert page.locator(".finding:visible").count() == everything
    page.select_option("#filter-mode", "jvp")
    assert "forward" not in page.locator(".compare tbody tr:visible small").all_text_contents()


def test_reproducers_open_and_can_be_copied(open_page: Any) -> None:
    page = open_page(viewport={"width": 1300, "height": 900}, permissions=["clipboard-read", "clipboard-write"])
    finding = page.locator(".finding:has(pre)").first
    assert not finding.locator("pre").is_visible()
    finding.locator("summary").click()
    assert finding.locator("pre").is_visible()
    finding.locator(".copy").click()
    page.wait_for_function("document.querySelector('details[open] .copy').textContent !== 'copy'")
    assert finding.locator(".copy").text_content() in ("copied", "selected")
    picture(page, "reproducer")


def test_a_phone_needs_no_sideways_scrolling(open_page: Any) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("document.querySelector('#heat').scrollIntoView()")
    picture(page, "phone")
    overflowing = page.locator("#heat td").evaluate_all(
        "cells => cells.filter(c => c.scrollWidth > c.clientWidth).length"
    )
    assert overflowing == 0


def test_dark_mode_has_a_dark_page_and_light_letters(open_page: Any) -> None:
    page = open_page(viewport={"width": 1300, "height": 900}, color_scheme="dark")
    style = "getComputedStyle(document.body)"
    assert page.evaluate(f"{style}.backgroundColor") == "rgb(23, 23, 22)"
    assert page.evaluate(f"{style}.color") == "rgb(236, 236, 234)"
    picture(page, "dark")


def test_paper_has_no_controls_and_open_reproducers(open_page: Any, tmp_path: Path) -> None:
    page = open_page(viewport={"width": 1300, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.locator(".filters").is_visible()
    assert page.locator("details:not([open])").count() == 0
    page.pdf(path=str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
