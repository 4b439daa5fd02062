"""How long a page takes to draw: from the start of the navigation until the script is through, and until the next frame.

    build/bin/html_bench                                     writes large_report.html: 50 stages x 4096 tokens
    python3 reports/html/browser/measure_page.py chromium large_report.html
"""

import sys

from browser import Browser


def main():
    drawn, shown = [], []
    for _ in range(5):
        with Browser(sys.argv[1]) as browser:
            browser.open(sys.argv[2])
            assert browser.value("document.documentElement.dataset.ready") == "true", browser.errors
            timing = browser.value(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {"
                " const [page] = performance.getEntriesByType('navigation');"
                " const paint = performance.getEntriesByName('first-contentful-paint')[0];"
                " done({drawn: page.domContentLoadedEventEnd, shown: paint ? paint.startTime : page.loadEventEnd}); })))")
            drawn.append(timing["drawn"])
            shown.append(timing["shown"])
    print(f"drawn after {min(drawn):.0f} ms, shown after {min(shown):.0f} ms (best of {len(drawn)}; "
          f"worst {max(drawn):.0f} and {max(shown):.0f} ms)")


if __name__ == "__main__":
    main()
