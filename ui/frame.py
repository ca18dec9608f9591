"""The graph's frame: one page with vis-network inlined, the same for everybody, so that browsers keep it.

It is shown in ``<iframe sandbox="allow-scripts">``, an origin of its own without rights on ours. Its policy forbids
every request, so even a script that got in could call nobody. What to draw comes in the URL's fragment.
"""

from __future__ import annotations

import json
from functools import cache

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from rag.settings import ASSETS
from ui.theme import COLOURS, FONTS
from ui.views.graph import FRAME_URL

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "sandbox allow-scripts",
    )
)

_COLOURS = ("card", "sunken", "line", "line-strong", "ink", "muted", "invert", "graph", "graph-tint")


@cache
def page() -> str:
    """The frame's HTML."""
    template = (ASSETS / "theme" / "graph.html").read_text(encoding="utf-8")
    library = (ASSETS / "vendor" / "vis-network" / "vis-network.min.js").read_text(encoding="utf-8")
    palette = {mode: {name: getattr(COLOURS[name], mode) for name in _COLOURS} for mode in ("light", "dark")}
    start = json.dumps({"colours": palette, "font": ",".join(FONTS)})
    return template.replace("/*START*/null", start).replace(
        "/*VIS-NETWORK*/", library.replace("</script", "<\\/script")
    )


def serve(request: Request) -> HTMLResponse:
    """The frame over HTTP."""
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": "public, max-age=3600",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return HTMLResponse(page(), headers=headers)


def route() -> Route:
    """To be handed to Gradio's server."""
    return Route(f"/{FRAME_URL}", serve)
