"""A few shapes for the pictures that scripts draw. Colours are CSS classes that follow the reader's preference, so a picture
is legible on light and on dark pages."""
from xml.sax.saxutils import escape

STYLE = """
.card{fill:#ffffff;stroke:#d0d7de}.ink{fill:#1f2328}.soft{fill:#59636e}
.line{stroke:#59636e;fill:none;stroke-width:1.5}.head{fill:#59636e}.dash{stroke-dasharray:5 4}
.lane{fill:#f6f8fa;stroke:#d0d7de}.box{fill:#ddf4ff;stroke:#0969da}.step{fill:#dafbe1;stroke:#1a7f37}
.own{fill:#0969da}.peer{fill:#afb8c1}.floor{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:5 4;fill:none}.floor-ink{fill:#cf222e}
@media (prefers-color-scheme:dark){
.card{fill:#0d1117;stroke:#3d444d}.ink{fill:#f0f6fc}.soft{fill:#b7bdc8}
.line{stroke:#9198a1}.head{fill:#9198a1}
.lane{fill:#151b23;stroke:#3d444d}.box{fill:#0c2d6b;stroke:#4493f8}.step{fill:#033a16;stroke:#3fb950}
.own{fill:#4493f8}.peer{fill:#656c76}.floor{stroke:#f85149}.floor-ink{fill:#f85149}
}
"""


class Drawing:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []
        self.rectangle(0.5, 0.5, width - 1, height - 1, "card", 6)

    def rectangle(self, x, y, width, height, kind, radius=5):
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>')

    def text(self, x, y, text, kind="ink", size=13, anchor="start", weight=400):
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{escape(text)}</text>')

    def box(self, x, y, width, height, lines, kind="box"):
        """A box with a bold first line and small lines below it."""
        self.rectangle(x, y, width, height, kind)
        top = y + height / 2 + 5 - 8 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 16 * number, line, "ink" if number == 0 else "soft", 14 if number == 0 else 11.5,
                      "middle", 600 if number == 0 else 400)

    def line(self, points, kind="line"):
        self.parts.append(f'<path class="{kind}" d="M{" L".join(f"{x:g},{y:g}" for x, y in points)}"/>')

    def arrow(self, points, kind="line"):
        """A line with right angles and an arrow head at the last point."""
        (x0, y0), (x, y) = points[-2:]
        step = lambda a, b: (a > b) - (a < b)
        dx, dy = step(x, x0), step(y, y0)
        self.line([*points[:-1], (x - 6 * dx, y - 6 * dy)], kind)
        self.parts.append(f'<path class="head" d="M{x:g},{y:g} L{x - 8 * dx + 4 * dy:g},{y - 8 * dy + 4 * dx:g} '
                          f'L{x - 8 * dx - 4 * dy:g},{y - 8 * dy - 4 * dx:g} Z"/>')

    def render(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">\n'
                f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n" + "\n".join(self.parts) + "\n</svg>\n")
