#!/bin/sh
# The install steps of the image build, run inside it:
#   install.sh tools              /opt/tools: what installs and builds, left behind in the build stage
#   install.sh packages SERVICE   /opt/placet: a virtual environment with the service's locked requirements
#   install.sh placet SERVICE     adds our own code: libs/placet and this one service, no other
# A wheels.txt beside the wheels means: no network, and its hashes count; else those of the lock file.
set -eu
step=$1 service=${2:-}
module=$(printf %s "$service" | tr - _)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
export UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy VIRTUAL_ENV=/opt/placet
uv=/opt/tools/bin/uv

locked() { # folder, lock file: the arguments that pip and uv share
    if [ -f "$1/wheels.txt" ]; then
        echo "--no-deps --require-hashes --no-index --find-links $1 -r $1/wheels.txt"
    else
        echo "--no-deps --require-hashes -r $1/$2.txt"
    fi
}

case $step in
tools)
    python3 -m venv /opt/tools
    # shellcheck disable=SC2046 # a list of words is meant
    /opt/tools/bin/pip install --quiet $(locked tools build)
    ;;
packages)
    $uv venv --quiet --python python3 /opt/placet
    # shellcheck disable=SC2046
    $uv pip install --quiet --compile-bytecode $(locked packages "$service")
    ;;
placet)
    # A service image holds its own service only: what is not there cannot be started in its name.
    find services -mindepth 1 -maxdepth 1 -type d ! -name "$module" -exec rm -r {} +
    rm -r libs/placet/testkit
    /opt/tools/bin/python -m hatchling build -t wheel -d dist >/dev/null
    $uv pip install --quiet --compile-bytecode --no-deps --no-index dist/*.whl
    if [ "$service" = provision ]; then command="placet provision"; else command="python -m services.$module"; fi
    printf '#!/bin/sh\nexec %s "$@"\n' "$command" >/opt/placet/bin/placet-serve
    chmod 0755 /opt/placet/bin/placet-serve
    /opt/placet/bin/python -c 'import placet'
    ;;
*)
    echo "install.sh: unknown step '$step'" >&2
    exit 2
    ;;
esac
