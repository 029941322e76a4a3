"""The Celery application: a doorbell for work that the database holds (STACK §4.1)."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Workers would repeat Django's system checks at each start; bin/check runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("sonde")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Requests run in threads of their own, where only the default application is found.
app.set_default()
app.autodiscover_tasks(["proxy", "research"])

# The same once more, for the worker of long answers: what queues a worker reads belongs to its application.
streams = Celery("sonde.streams", set_as_current=False)
streams.config_from_object("django.conf:settings", namespace="CELERY")
streams.autodiscover_tasks(["proxy"])
