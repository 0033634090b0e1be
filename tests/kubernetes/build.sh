#!/bin/bash
# Builds Kubernetes 1.20 from Debian's source package, for loopback.sh: Debian itself has only its kubectl.
#
#	build.sh FOLDER		the programs are in FOLDER/bin; what is there already is taken
#
# Needs golang-go, dpkg-dev, curl, the network and 2 GiB below FOLDER, of which 0.3 GiB remain; takes 3 minutes on 2 cores.
# KEEP=1 keeps the source and Go's cache, for another build.
set -eu
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
into=$(cd "$1" && pwd)
programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl"
exec 9>"$into/lock"
flock 9	# another build
for program in $programs; do [ -x "$into/bin/$program" ] || missing=1; done
[ -n "${missing-}" ] || exit 0
fail() { echo "build.sh: $1" >&2; exit 1; }
command -v go >/dev/null || fail "no go: apt-get install golang-go"
command -v dpkg-source >/dev/null || fail "no dpkg-source: apt-get install dpkg-dev"

# apt with lists of its own: the machine's need not name sources, and stay as they are.
apt() {
	apt-get -q -o Dir::State="$into/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$into/apt" \
		-o Dir::Etc::sourcelist="$into/apt/sources" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root "$@"
}
# The machine's mirror and keys, with `deb-src` beside `deb`; a file that names another distribution does no harm.
write_sources() {
	mkdir -p "$into"/apt/lists/partial "$into"/apt/archives/partial
	local mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null | grep -w "$suite" | head -n 1)
	mirror=${mirror%% *}
	for kind in deb deb-src; do
		echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $suite main"
	done >"$into/apt/sources"
}
suite=bookworm	# the one whose Go and source have been tried
source=$into/gopath/src/k8s.io/kubernetes
if [ ! -d "$source" ]; then
	write_sources
	apt update >&2
	(cd "$into" && apt source --download-only kubernetes >&2 && apt download golang-github-modern-go-reflect2-dev >&2)
	mkdir -p "$into/gopath/src/k8s.io"
	rm -rf "$source.part"
	dpkg-source --no-check -x "$into"/kubernetes_*.dsc "$source.part" >&2
	# With Go 1.18 or later the copy in the source panics in kube-apiserver at every map in a request.
	dpkg -x "$into"/golang-github-modern-go-reflect2-dev_*.deb "$into/reflect2"
	rm -r "$source.part/vendor/github.com/modern-go/reflect2"
	cp -r "$into/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2" "$source.part/vendor/github.com/modern-go/"
	mv "$source.part" "$source"
fi
cd "$source"
# GOPATH mode: in module mode Go 1.19 wants to change go.mod.
export GOPATH=$into/gopath GOCACHE=$into/cache CGO_ENABLED=0 GO111MODULE=off GOFLAGS=
# The one generated file that the source package lacks.
if [ ! -s pkg/generated/openapi/zz_generated.openapi.go ]; then
	go build -o "$into/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
	folders=$({
		grep -rlE --include='*.go' '^// \+k8s:openapi-gen=' pkg cmd plugin
		(cd staging/src && grep -rlE --include='*.go' '^// \+k8s:openapi-gen=' k8s.io |
			grep -vE '^k8s.io/(code-generator|sample-apiserver|kube-openapi)/' | sed 's#^#vendor/#')
	} | grep -v _test.go | xargs -n1 dirname | LC_ALL=C sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
	"$into/openapi-gen" -i "$folders" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
		-h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$into/openapi.report"
fi
# Without a version, clients and the scheduler take the server for 0.0.
flags="-s -w"
for package in component-base client-go/pkg; do
	package=k8s.io/kubernetes/vendor/k8s.io/$package/version
	flags="$flags -X $package.gitVersion=v1.20.2 -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=clean"
done
mkdir -p "$into/built"
# shellcheck disable=SC2046
go build -tags providerless,dockerless -ldflags "$flags" -o "$into/built/" $(printf './cmd/%s ' $programs)
mkdir -p "$into/bin"
mv "$into"/built/* "$into/bin/"
if [ -z "${KEEP-}" ]; then
	chmod -R u+w "$into/gopath"
	rm -rf "$into/gopath" "$into/cache" "$into/reflect2" "$into/apt" "$into/built" "$into"/kubernetes_* "$into"/golang-* "$into"/openapi*
fi
