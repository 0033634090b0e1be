# espalier.m4 - for packages that bring plugins of espalier.

# ESPALIER_PLUGIN([MINIMUM-VERSION])
# Finds espalier's headers by pkg-config and sets
#   ESPALIER_CFLAGS    for the plugin's CPPFLAGS
#   ESPALIER_LDFLAGS   for its LDFLAGS, behind a literal -module: no version, no undefined symbol
#   plugindir          where espalier looks for plugins.  The default lies under the package's own
#                      libdir, so that `make install` and `make distcheck` write where they are told;
#                      --with-plugindir=espalier takes espalier's own folder.
# The file of a plugin must be named KIND_NAME.c and its descriptor ESPL_PLUGIN(KIND, NAME).
AC_DEFUN([ESPALIER_PLUGIN], [
	AC_REQUIRE([PKG_PROG_PKG_CONFIG])
	PKG_CHECK_MODULES([ESPALIER], [espalier]m4_ifval([$1], [ >= $1]))
	AC_ARG_WITH([plugindir],
		[AS_HELP_STRING([--with-plugindir=DIR],
			[where the plugins go @<:@LIBDIR/espalier/plugins@:>@; 'espalier': where espalier itself looks])],
		[], [with_plugindir=default])
	AS_CASE([$with_plugindir],
		[espalier | yes], [plugindir=`$PKG_CONFIG --variable=plugindir espalier`],
		[default | no], [plugindir='${libdir}/espalier/plugins'],
		[plugindir=$with_plugindir])
	AC_SUBST([plugindir])
	ESPALIER_LDFLAGS="-avoid-version -shared -no-undefined"
	AC_SUBST([ESPALIER_LDFLAGS])
])

# ESPALIER_CHECK_KIT
# Sets ESPALIER_KIT_CFLAGS and ESPALIER_KIT_LIBS, for plugins that include <espalier/kit/...>.
AC_DEFUN([ESPALIER_CHECK_KIT], [
	AC_REQUIRE([PKG_PROG_PKG_CONFIG])
	PKG_CHECK_MODULES([ESPALIER_KIT], [espalier-kit])
])

# ESPALIER_CHECK_TESTKIT([IF-FOUND], [IF-NOT-FOUND])
# Sets ESPALIER_TESTKIT_CFLAGS and ESPALIER_TESTKIT_LIBS, and the conditional HAVE_TESTKIT.  (No macro
# may bear the name of the variables' prefix: it would expand within itself without end.)
AC_DEFUN([ESPALIER_CHECK_TESTKIT], [
	AC_REQUIRE([PKG_PROG_PKG_CONFIG])
	PKG_CHECK_MODULES([ESPALIER_TESTKIT], [espalier-testkit],
		[have_testkit=yes
		$1], [have_testkit=no
		$2])
	AM_CONDITIONAL([HAVE_TESTKIT], [test "x$have_testkit" = xyes])
])
