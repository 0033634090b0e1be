#!/usr/bin/env bash
# Tries a wheel with the real frameworks and trackers: in a clean Debian system, an ordinary user installs it beside Debian's
# PyTorch and the newest PyTorch Lightning, transformers, Keras, TensorBoard, MLflow, Weights & Biases, pandas, Matplotlib,
# scikit-learn and Hydra of PyPI, and runs the tests of the package that are skipped where these are missing.  Needs root, debootstrap, 6 GB of disk,
# the network.
#
#   scripts/check-frameworks.sh FILE.whl
#   SUITE=NAME                              of Debian; default: trixie
#   DEBIAN_MIRROR=URL DEBIAN_BASE=FOLDER    see roots.sh
#   KEEP=1                                  keeps the root file system, and says where
#
# pip's settings (/etc/pip.conf) and certificates are those of this system.  The last line counts the checks.
set -u
[ $# -eq 1 ] || { echo "usage: scripts/check-frameworks.sh FILE.whl" >&2; exit 2; }
wheel=$1
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=scripts/roots.sh
. "$top/scripts/roots.sh"
[ -f "$wheel" ] || fail "there is no $wheel"
needs_tools debootstrap unshare
begin_checks frameworks
use=$work/use
modules="torch pytorch_lightning transformers keras jax tensorboard mlflow wandb pandas matplotlib sklearn hydra"

make_system() {
	make_root "${SUITE:-trixie}" "$use" && make_user "$use" &&
		inside "$use" apt-get install -y --no-install-recommends python3-venv python3-torch procps || return
	cp "$wheel" "$use/home/user/" && cp -r "$top/tests/python" "$use/home/user/tests" &&
		cp -r "$top/sdk/python/hydra-sweeper" "$use/home/user/hydra" && inside "$use" chown -R user /home/user/hydra || return
	cp /etc/ssl/certs/ca-certificates.crt "$use/etc/ssl/certs/" && { [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$use/etc/"; }
}
# Debian's PyTorch: that of PyPI brings some gigabytes of CUDA.
install_packages() {
	as_user "$use" sh -ec 'cd; python3 -m venv --system-site-packages v; v/bin/pip install -q ./*.whl pytorch-lightning \
		transformers accelerate keras jax tensorboard tensorboardX mlflow wandb pandas matplotlib scikit-learn hydra-core ./hydra'
}
versions() {
	as_user "$use" sh -c 'cd; export KERAS_BACKEND=jax; for module; do v/bin/python -c "import $module; print(\"$module\", $module.__version__)"; done' \
		sh $modules 2>"$work/log"
}
run_tests() {	# FILE
	as_user "$use" sh -c '. ~/v/bin/activate; cd ~/tests && PYTHONDONTWRITEBYTECODE=1 python3 each.py '"$1"'.py' \
		>"$work/$1" 2>"$work/$1.errors"
	[ -s "$work/$1" ] || { cat "$work/$1.errors"; return 1; }
}
# What is skipped because something is missing has failed: everything is installed.
passes() {	# FILE RESULT REASON
	case $2:$3 in ok:* | "skip:"*" is here") return ;; esac
	echo "$2: $3"
	cat "$work/$1.errors"
	return 1
}

check_frameworks() {
	local file result test reason
	check "a system with PyTorch" make_system &&
		check "pip installs the wheel and the frameworks" install_packages || return 1
	versions | sed 's/^/# /'
	for file in test_frameworks test_trackers test_results test_figures test_sklearn test_hydra; do
		check "$file runs" run_tests $file || continue
		while read -r result test reason; do
			check "$file: $test" passes "$file" "$result" "$reason"
		done <"$work/$file"
	done
}

check_frameworks
end_checks
