#!/bin/sh
# TAP: README stays short; each page says in its third line for whom it is and what it answers, and is
# listed; links, also to sections, and the files that pages name exist; phrases that docs/style.md rules out stay out;
# packages have configure.ac's version, and everything that is installed.
# shellcheck source=tests/policy/report.sh
. "$(dirname "$0")/report.sh"
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 99
pages=$(find README.md CONTRIBUTING.md docs -name '*.md' | LC_ALL=C sort)
# Not what the program prints.
written=$(echo "$pages" | grep -v '^docs/config.md$')

# What a heading is called in a link.
anchors() { awk '/^```/ { code = !code } /^#/ && !code' "$1" | sed 's/^#* //' | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }

echo 1..11
if [ "$(echo "$pages" | wc -l)" -gt 30 ]; then
	report 'the pages are here' ''
else
	report 'the pages are here' "only: $pages"
fi
report 'every page is distributed, and every test is run' "$(
	for f in docs/*.md; do grep -qF "$f" docs/docs.am || echo "$f: not in docs/docs.am"; done
	for f in tests/runs/*.test; do grep -qF "$f" tests/runs/runs.am || echo "$f: not in tests/runs/runs.am"; done)"
report 'README has less than 150 lines' "$(awk 'END { if (NR >= 150) print "README.md: " NR " lines" }' README.md)"
report 'every page says for whom it is' "$(
	for f in $written; do
		case $f in
		README.md) ;;
		docs/adr/0*) sed -n 3p "$f" | grep -q '^\*Status: ' || echo "$f: its third line is not *Status: ...*" ;;
		*) sed -n 3p "$f" | grep -q '^\*For ' || echo "$f: its third line does not begin with *For ...*" ;;
		esac
	done)"
report 'docs/README.md and docs/adr/README.md list every page' "$(
	for f in docs/*.md docs/results/*.md; do
		[ "$f" = docs/README.md ] || grep -q "(${f#docs/})" docs/README.md || echo "docs/README.md: no link to $f"
	done
	for f in docs/adr/0*.md; do
		grep -q "(${f#docs/adr/})" docs/adr/README.md || echo "docs/adr/README.md: no link to $f"
	done)"
report 'links within the tree lead somewhere' "$(
	for f in $pages; do
		grep -o '](\([^)#]*\)' "$f" | sed 's/^](//' | grep -v '^[a-z]*:' | sort -u | while read -r to; do
			[ -z "$to" ] || [ -e "$(dirname "$f")/$to" ] || echo "$f: there is no $to"
		done
	done)"
report 'links to sections lead to one' "$(
	for f in $pages; do
		grep -o ']([^)]*#[^)]*)' "$f" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' | sort -u | while read -r to; do
			page=$f
			[ -z "${to%%#*}" ] || page=$(dirname "$f")/${to%%#*}
			case $page in *.md) anchors "$page" | grep -qxF -e "${to#*#}" || echo "$f: $to leads to no section" ;; esac
		done
	done)"
report 'files that pages for contributors name exist' "$(
	for f in CONTRIBUTING.md docs/architecture.md docs/style.md docs/adr/*.md; do
		grep -o '`\(base\|core\|driver\|lab\|node\|sdk\|plugins\|tests\|scripts\|examples\|docs\|m4\)/[^` ]*`' "$f" | tr -d '\140' |
			sort -u | while read -r name; do
			case $name in *NN* | *NAME* | *'<'*) continue ;; esac
			# A pattern names at least one file; a configuration may follow a line number.
			# shellcheck disable=SC2086
			ls -d ${name%%:*} >/dev/null 2>&1 || echo "$f: there is no $name"
		done
	done)"
report 'words that docs/style.md rules out' "$(
	# shellcheck disable=SC2086
	grep -n -i -w -E 'anew|for ever|in good order|whoever|so many|nobody|in vain|besides|(is|are) told|is said|to be had|goes on|folders?' $(echo "$written" | grep -v '^docs/style.md$'))"
version=$(sed -n 's/^AC_INIT(\[espalier\], \[\(.*\)\])$/\1/p' configure.ac)
report 'packages have the version of configure.ac' "$(
	# The tarball has no debian/.
	[ ! -e debian ] || head -n 1 debian/changelog | grep -q "^espalier ($version-" || echo "debian/changelog: not version $version"
	grep -q "^Version: *$version\$" packaging/espalier.spec || echo "packaging/espalier.spec: not version $version")"
report 'every folder of share/espalier is in a Debian package' "$(
	[ ! -e debian ] || sed -n '/^nobase_dist_pkgdata_/,/[^\\]$/p' $(find . -name '*.am') |
		tr ' \t' '\n\n' | sed -n 's|^\([a-z]*\)/.*|\1|p' | sort -u | while read -r folder; do
		grep -q "^usr/share/espalier/$folder" debian/*.install || echo "debian/*.install: no usr/share/espalier/$folder"
	done)"
exit $failed
