# Sourced by bin/up, bin/test and bin/check: finds a Python and keeps .venv fit; the caller stands in the checkout.
# POSIX sh only, since it must run before anything is installed.

oldest="3.11"

say() { printf '%s\n' "sonde: $*" >&2; }
die() { say "$*"; exit 1; }

# Runs the candidate instead of trusting its name: version shims exist without their Python.
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# Prints the first usable Python; tells in one line why there is none.
find_python() {
    too_old='' without_venv=''
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11 python
    fi
    for candidate in "$@"; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        if ! is_new_enough "$candidate"; then
            version=$(version_of "$candidate") && too_old=${too_old:-"$candidate is Python $version"}
        elif ! has_venv "$candidate"; then
            without_venv=${without_venv:-$candidate}
        else
            printf '%s\n' "$candidate"
            return
        fi
    done
    if [ -n "$without_venv" ]; then
        die "$without_venv ($(version_of "$without_venv")) has no venv module: install it" \
            "(Debian and Ubuntu: apt-get install python3-venv), then run this again"
    elif [ -n "$too_old" ]; then
        die "Python $oldest or newer is needed, but $too_old; set PYTHON to a newer one"
    fi
    [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON does not run; set it to the path of Python $oldest or newer"
    die "Python $oldest or newer is needed, but none was found; install it or set PYTHON to its path"
}

# prepare KIND: make .venv hold requirements.txt (KIND up) or requirements-dev.txt as well (KIND dev).
prepare() {
    if [ -x .venv/bin/python ] && .venv/bin/python -I -S bin/prepare.py --is-ready "$1" 2>/dev/null; then
        return
    fi
    python=$(find_python) || exit 1
    "$python" -I bin/prepare.py "$1"
}
