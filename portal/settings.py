"""The one settings file. SONDE_MODE picks a bundle; every wrong variable stops the start.

Names are the seeds' where they exist (SPEC 1.4); `.env.example` lists them all and a test
compares the two.
"""

from __future__ import annotations

import os
import secrets
import sys
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from kombu import Queue

from portal import databases
from portal.data_folder import made_folder, own_secret
from portal.env import Env, EnvError
from portal.services.sealing import new_key, parse_ring

BASE_DIR = Path(__file__).resolve().parent.parent
BROWSER = (
    "Mozilla/5.0 (X11; Linux aarch64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
)
"""What a web session is used with, unless told otherwise (proxy-contract §2)."""
USUAL_PROFILE = "chrome"
"""Whose fingerprint web sessions show, unless told otherwise."""
SHORTEST_SECRET_KEY = 50
"""Characters; Django's own deployment check asks for as many."""
DAY_OF_SECONDS, YEAR_OF_HOURS = 86_400, 8_760
"""The longest times that anybody may set."""


def _environment() -> Env:
    """`.env` under the process environment; `SONDE_ENV_FILE=` (empty) reads no file."""
    path = os.environ.get("SONDE_ENV_FILE", str(BASE_DIR / ".env"))
    return Env({**(_file(path) if path else {}), **os.environ})


def _file(path: str) -> dict[str, str]:
    """What a file of settings says; a line that says nothing stops the start instead of being passed over."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        raise EnvError(f"{path}: cannot be read as UTF-8 text") from None
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            raise EnvError(f"{path}: line {binding.original.line} is not NAME=value")
    return {key: value or "" for key, value in dotenv_values(stream=StringIO(text)).items()}


def _stop(error: EnvError) -> NoReturn:
    sys.exit(f"sonde: {error}")


def _secret_key() -> str:
    path = DATA_DIR / "secret.key"
    key = env.secret("SECRET_KEY") or own_secret("SECRET_KEY", path, partial(secrets.token_urlsafe, 48))
    if len(key) < SHORTEST_SECRET_KEY:
        raise EnvError(f"SECRET_KEY: must have at least {SHORTEST_SECRET_KEY} characters")
    return key


def _encryption_keys() -> str:
    name, path = "SONDE_ENCRYPTION_KEYS", DATA_DIR / "encryption.keys"
    keys = env.secret("SONDE_ENCRYPTION_KEYS") or own_secret(name, path, new_key)
    try:
        parse_ring(keys)
    except ValueError as error:
        raise EnvError(f"{name}: {error}") from None
    return keys


def _database() -> dict[str, Any]:
    url = env.secret_url("DATABASE_URL", schemes=("postgresql", "postgres"))
    if url:
        return databases.postgres(url)
    if CLUSTER:
        raise EnvError("DATABASE_URL: is needed in cluster mode: postgresql://user:password@host/name")
    return databases.sqlite(DATA_DIR / "sonde.sqlite3")


def _redis() -> str:
    url = env.secret_url("REDIS_URL", schemes=("redis", "rediss"))
    if CLUSTER and not url:
        raise EnvError("REDIS_URL: is needed in cluster mode: redis://host:6379/0")
    return url if CLUSTER else ""


def _broker(redis: str) -> str:
    """In embedded mode the broker is a name within the process. kombu would not check a certificate."""
    if not redis:
        return "memory://here"
    return f"{redis}?ssl_cert_reqs=required" if redis.startswith("rediss:") else redis


def _public_url() -> str:
    """Where people and scripts find the portal; an address that means "all" is none to go to."""
    host = "localhost" if HOST in ("0.0.0.0", "::") else f"[{HOST}]" if ":" in HOST else HOST
    return env.origin("PUBLIC_URL", f"http://{host}:{PORT}")


try:
    env = _environment()
    SONDE_MODE = env.choice("SONDE_MODE", ("embedded", "cluster"), "embedded")
    CLUSTER = SONDE_MODE == "cluster"
    DATA_DIR = made_folder(BASE_DIR / Path(env.text("DATA_DIR", "data")).expanduser())
    SECRET_KEY = _secret_key()
    SONDE_ENCRYPTION_KEYS = _encryption_keys()
    DATABASES = {"default": _database()}
    REDIS_URL = _redis()

    # Upstreams
    PERPLEXITY_API_KEY = env.secret("PERPLEXITY_API_KEY")
    PERPLEXITY_BASE_URL = env.url("PERPLEXITY_BASE_URL", "https://api.perplexity.ai")
    PPLX_COOKIE = env.secret("PPLX_COOKIE")
    PPLX_WEB_URL = env.origin("PPLX_WEB_URL", "https://www.perplexity.ai")
    PPLX_API_VERSION = env.text("PPLX_API_VERSION", "2.18")
    PPLX_IMPERSONATE = env.text("PPLX_IMPERSONATE", USUAL_PROFILE).lower()
    USER_AGENT = env.text("USER_AGENT", BROWSER)
    UPSTREAM_TIMEZONE = env.timezone("UPSTREAM_TIMEZONE", "UTC")
    ACCOUNT_TYPE = env.choice("ACCOUNT_TYPE", ("free", "pro", "max"), "pro")
    DEFAULT_MODEL = env.text("DEFAULT_MODEL", "gpt")
    CUSTOM_PROMPTS = env.text_or_path("CUSTOM_PROMPTS")
    COOKIE_MAX_AGE_HOURS = env.number("COOKIE_MAX_AGE_HOURS", 168, least=1, most=YEAR_OF_HOURS)
    KEEPALIVE_HOURS = env.number("KEEPALIVE_HOURS", 6, least=0.1, most=YEAR_OF_HOURS)
    PROBE_INTERVAL_HOURS = env.number("PROBE_INTERVAL_HOURS", 24, least=0.1, most=YEAR_OF_HOURS)
    CHAT_FIRST_SECONDS = env.number("CHAT_FIRST_SECONDS", 90, least=1, most=DAY_OF_SECONDS)
    CHAT_SILENCE_SECONDS = env.number("CHAT_SILENCE_SECONDS", 45, least=1, most=DAY_OF_SECONDS)
    CHAT_WAIT_SECONDS = env.number("CHAT_WAIT_SECONDS", 30, least=0, most=DAY_OF_SECONDS)
    CHAT_TOTAL_SECONDS = env.number("CHAT_TOTAL_SECONDS", 900, least=1, most=DAY_OF_SECONDS)
    FLARESOLVERR_URL = env.url("FLARESOLVERR_URL", "http://localhost:8191")
    RESPONSES_BACKEND_URL = env.url("RESPONSES_BACKEND_URL")
    RESPONSES_BACKEND_KEY = env.secret("RESPONSES_BACKEND_KEY")
    RESPONSES_BACKEND_MODEL = env.text("RESPONSES_BACKEND_MODEL", "deep-research")
    RESEARCH_BACKENDS = env.words("RESEARCH_BACKENDS", ("agent", "sonar", "web"))
    RESEARCH_POLL_SECONDS = env.number("RESEARCH_POLL_SECONDS", 0, least=0, most=DAY_OF_SECONDS)
    RESEARCH_LEASE_SECONDS = env.number("RESEARCH_LEASE_SECONDS", 30, least=2, most=DAY_OF_SECONDS)
    SONDE_UPSTREAM = env.choice("SONDE_UPSTREAM", ("auto", "live", "sandbox"), "auto")
    SANDBOX_PORT = env.integer("SANDBOX_PORT", 0, least=0, most=65535)
    SANDBOX_SECONDS = env.number("SANDBOX_SECONDS", 0, least=0, most=DAY_OF_SECONDS)

    # The door
    HOST = env.text("HOST", "127.0.0.1")
    PORT = env.integer("PORT", env.integer("PPLX_PROXY_PORT", 8000, least=1, most=65535), least=1, most=65535)
    PUBLIC_URL = _public_url()
    ALLOWED_HOSTS = list(env.hosts("ALLOWED_HOSTS"))
    TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
    CORS_ORIGINS = env.origins("CORS_ORIGINS")
    PPLX_PROXY_API_KEY = env.secret("PPLX_PROXY_API_KEY")
    SONDE_URL = env.url("SONDE_URL")
    SONDE_API_KEY = env.secret("SONDE_API_KEY")
    SONDE_MCP_FIXTURES = env.text("SONDE_MCP_FIXTURES")
    RETENTION_DAYS = env.integer("RETENTION_DAYS", 0, least=0, most=100 * 365)
    if 0 < RETENTION_DAYS < 7:
        raise EnvError("RETENTION_DAYS: must be at least 7, or empty to keep results until deleted")
    FILES_TOTAL_MIB = env.integer("FILES_TOTAL_MIB", 200, least=0)
    FILES_USER_MIB = env.integer("FILES_USER_MIB", 100, least=0)
    NTFY_TOPIC = env.text("NTFY_TOPIC")
    NTFY_URL = env.url("NTFY_URL", "https://ntfy.sh")
    NTFY_COOLDOWN_SECS = env.integer("NTFY_COOLDOWN_SECS", 3600, least=0, most=365 * DAY_OF_SECONDS)
    LOG_LEVEL = env.choice("LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"), "INFO")
    DEBUG = False
except EnvError as error:
    _stop(error)

PUBLIC_HOST = urlsplit(PUBLIC_URL).hostname or "localhost"
SECURE = PUBLIC_URL.startswith("https://")
ALLOWED_HOSTS = [*ALLOWED_HOSTS, PUBLIC_HOST, HOST, "localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # portal.admin.urls has it discover what it shows
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "csp",
    "channels",
    "rest_framework",
    "portal",
    "proxy",
    "research",
]
MIDDLEWARE = [
    "portal.api.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.pages.static.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.pages.context.portal",
            ],
        },
    }
]

AUTH_USER_MODEL = "portal.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "portal.pages.account.AccountAdapter"
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

SESSION_ENGINE = "portal.services.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
# Sonde speaks plain HTTP: whoever has an https address has a proxy, which has to say what it was asked by.
SECURE_SSL_REDIRECT = SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE else None
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "connect-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from where they stand: nothing is to be collected before a start.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS: dict[str, Any] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "sonde"},
    }
    if CLUSTER
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}
CACHES: dict[str, Any] = {
    "default": {
        "BACKEND": "portal.services.cache.SteadyCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }
    if CLUSTER
    # What is kept are counts of log-in attempts: whoever guesses must not push them out by guessing more.
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 20_000}}
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.authentication.KeyAuthentication",
        "portal.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "portal.api.negotiation.FirstRenderer",
    "EXCEPTION_HANDLER": "portal.api.framework.handle_exception",
    "UNAUTHENTICATED_USER": None,
}

# Messages are hints: no result backend, no ETA, publishing fails fast (STACK §4.1-4.2).
CELERY_BROKER_URL = _broker(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "visibility_timeout": 300,
        "socket_connect_timeout": 2,
        "socket_timeout": 5,
        "global_keyprefix": "sonde.",
    }
    if CLUSTER
    else {"polling_interval": 0.05}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.2,
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 20
# Threads cannot be cancelled: the worker would only say so, once for each task, in tracebacks.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "research.sweep", "schedule": 1.0, "options": {"expires": 5, "queue": "drive"}},
    "tidy": {"task": "research.tidy", "schedule": 60.0, "options": {"expires": 60, "queue": "maint"}},
    "sweep-turns": {
        "task": "proxy.sweep_turns",
        "schedule": 5.0,
        "options": {"expires": 5, "queue": "maint"},
    },
    "care": {"task": "proxy.care", "schedule": 5.0, "options": {"expires": 5, "queue": "maint"}},
    "tidy-files": {"task": "proxy.tidy", "schedule": 300.0, "options": {"expires": 60, "queue": "maint"}},
    "discover": {"task": "proxy.discover", "schedule": 300.0, "options": {"expires": 60, "queue": "maint"}},
}
CELERY_TASK_QUEUES = (Queue("drive"), Queue("maint"), Queue("stream"))
CELERY_TASK_DEFAULT_QUEUE = "drive"
CELERY_TASK_ROUTES = {
    "proxy.answer_turn": {"queue": "stream"},
    "proxy.answer_response": {"queue": "stream"},
}
# Workers are watched by their heartbeat row; a control channel would be one more open door.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BEAT_ENABLE_REMOTE_CONTROL = False

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "portal.logs.RedactingFormatter"}},
    "filters": {"strangers": {"()": "portal.logs.Strangers"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["strangers"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
        "uvicorn": {"level": "WARNING"},
        # Tells of every form that it cannot read; whoever sent it is told by us.
        "python_multipart": {"level": "ERROR"},
    },
}
