"""How a session's cookie is copied: said by the form, the command and the README alike."""

from __future__ import annotations

COOKIE_STEPS = (
    "Log in at www.perplexity.ai in your browser.",
    "Open the developer tools (F12) and there Application, or Storage in Firefox.",
    "Under Cookies choose https://www.perplexity.ai and the row __Secure-next-auth.session-token.",
    "Copy its whole value. Where it is split into rows .0, .1, …, copy the whole Cookie: line of a request.",
)
