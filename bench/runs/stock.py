"""Settings of the baselines: ours, with what `startproject` gives where ours differ: its middleware, and a
connection for each request and task."""

from portal.settings import *  # noqa: F403
from portal.settings import DATABASES

ROOT_URLCONF = "bench.runs.stock_doors"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # Nothing starts without it here; it costs next to nothing.
    "allauth.account.middleware.AccountMiddleware",
]
DATABASES["default"]["OPTIONS"].pop("pool")
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
