#!/bin/sh
# The two install steps of the image build, run inside it:
#   install.sh third-party SERVICE   makes /opt/placet (a virtual environment) from the locked requirements
#   install.sh placet SERVICE        adds our own code: libs/placet and this one service, no other
# Wheels in ./wheelhouse mean: no network, and the hashes of wheelhouse/*.txt count; else those of requirements/*.txt.
set -eu
step=$1 service=$2
module=$(printf %s "$service" | tr - _)

install_locked() { # virtual environment, name of the requirement file
    if [ -f "wheelhouse/$2.txt" ]; then
        "$1/bin/pip" install --quiet --no-deps --require-hashes --no-index --find-links wheelhouse -r "wheelhouse/$2.txt"
    else
        "$1/bin/pip" install --quiet --no-deps --require-hashes -r "requirements/$2.txt"
    fi
}

case $step in
third-party)
    python3 -m venv /opt/builder
    install_locked /opt/builder build
    python3 -m venv /opt/placet
    install_locked /opt/placet "$service"
    ;;
placet)
    # A service image holds its own service only: what is not there cannot be started in its name.
    find services -mindepth 1 -maxdepth 1 -type d ! -name "$module" -exec rm -r {} +
    /opt/builder/bin/python -m hatchling build -t wheel -d dist >/dev/null
    /opt/placet/bin/pip install --quiet --no-deps --no-index dist/*.whl
    if [ "$service" = provision ]; then command="placet provision"; else command="python -m services.$module"; fi
    printf '#!/bin/sh\nexec %s "$@"\n' "$command" >/opt/placet/bin/placet-serve
    chmod 0755 /opt/placet/bin/placet-serve
    # Nothing installs into a running service.
    /opt/placet/bin/pip uninstall --quiet --yes pip setuptools
    /opt/placet/bin/python -c 'import placet'
    ;;
*)
    echo "install.sh: unknown step '$step'" >&2
    exit 2
    ;;
esac
