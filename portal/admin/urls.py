"""The admin site's paths, and with them all that it shows: only admins wait for it, and only once."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin

admin.autodiscover()
# `portal.admin` is a package of modules with an empty __init__ (HOUSE §1): name them here.
for module in ("people", "keys", "credits", "upstreams"):
    import_module(f"portal.admin.{module}")

urlpatterns = admin.site.urls[0]
