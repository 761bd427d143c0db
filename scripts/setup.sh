#!/usr/bin/env bash
# setup.sh VENV PYTHON: the control environment, with qpipe installed in place.
set -euo pipefail
venv=$1 python=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "qpipe needs Python 3.11 or newer; set one: make PYTHON=python3.12 …" >&2
  exit 4
}
[ -x "$venv/bin/uv" ] || { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet uv; }
# uv reads its own variables only: carry over the machine's pip settings.
export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
[ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --editable '.[test]'
