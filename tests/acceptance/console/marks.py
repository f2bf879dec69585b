"""What a page draws a reader's eye to: the mark of the row to look at first, and its largest words.

Both are judged by what the browser has drawn, not by the names of classes.
"""

import re
from typing import Any, Final

from tests.acceptance.site_browser import Browser

TEXT_CONTRAST: Final = 4.5
SIGN: Final = "▶"
# The first link of each row, as it is drawn, on the ground that is seen behind it.
_LINKS: Final = """[...document.querySelectorAll('main tbody tr')]
    .map(row => row.querySelector('a')).filter(link => link && link.checkVisibility())"""
_LOOKS: Final = f"""{_LINKS}.map(link => {{
    const style = getComputedStyle(link), before = getComputedStyle(link, '::before');
    const inner = link.firstElementChild ? getComputedStyle(link.firstElementChild) : style;
    return {{
        text: link.textContent, sign: before.content, weight: Number(style.fontWeight),
        ground: style.backgroundColor, ink: inner.color,
    }};
}})"""
_MARKED: Final = f"""{_LINKS}
    .find(link => getComputedStyle(link, '::before').content.includes('{SIGN}'))"""
_LARGEST: Final = """(() => {
    const said = [...document.body.querySelectorAll('*')].filter(each => each.checkVisibility()
        && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
    const size = each => parseFloat(getComputedStyle(each).fontSize);
    return said.reduce((most, each) => size(each) > size(most) ? each : most);
})()"""


def click_marked(browser: Browser) -> None:
    """Click on the first element that the page marks, which must be plain to see."""
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        check_marks(browser)
    browser.click_on(_MARKED)


def click_largest(browser: Browser) -> None:
    """Click on the words of the page that are set in the largest letters."""
    browser.click_on(_LARGEST)


def largest(browser: Browser) -> str:
    """The words of the page that are set in the largest letters."""
    return str(browser.evaluate(f"{_LARGEST}.textContent"))


def marked(browser: Browser) -> list[str]:
    """The texts of the links that the page marks."""
    return [each["text"] for each in browser.evaluate(_LOOKS) if SIGN in each["sign"]]


def check_marks(browser: Browser) -> None:
    """Check that one row is marked, by a sign, its weight and its ground, and can be read."""
    looks: list[dict[str, Any]] = browser.evaluate(_LOOKS)
    [look] = [each for each in looks if SIGN in each["sign"]]
    for other in looks:
        if other is look:
            continue
        assert other["sign"] in ("none", "normal"), other
        assert other["weight"] < look["weight"], (other, look)
        assert other["ground"] != look["ground"], (other, look)
    assert contrast(look["ink"], look["ground"]) >= TEXT_CONTRAST, look


def contrast(ink: str, ground: str) -> float:
    """Return the contrast of two colours as WCAG defines it: 1 to 21."""
    light, dark = sorted((_luminance(ink), _luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = [float(each) / 255 for each in re.findall(r"[\d.]+", colour)]
    assert len(channels) == 3, f"{colour} can be seen through"
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
