dnl espl_flags.m4 - compiler and linker flags, each asked for before it is used.
dnl The user's CFLAGS, LDFLAGS and LIBS are never changed: results go into AM_ variables of ours.

dnl ESPL_COMPILE_FLAG(VARIABLE, FLAG): adds FLAG to VARIABLE if the compiler takes it together with what is there:
dnl -Wformat-security needs -Wformat of -Wall.
AC_DEFUN([ESPL_COMPILE_FLAG], [
	AS_VAR_PUSHDEF([cache], [espl_cv_cflag_$2])
	AC_CACHE_CHECK([whether $CC accepts $2], [cache], [
		espl_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS -Werror $$1 $2"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([cache], [yes])],
			[AS_VAR_SET([cache], [no])])
		CFLAGS=$espl_save_CFLAGS])
	AS_VAR_IF([cache], [yes], [AS_VAR_APPEND([$1], [" $2"])])
	AS_VAR_POPDEF([cache])
])

dnl ESPL_LINK_FLAG(VARIABLE, FLAG): adds FLAG to VARIABLE if a program links with it.
AC_DEFUN([ESPL_LINK_FLAG], [
	AS_VAR_PUSHDEF([cache], [espl_cv_ldflag_$2])
	AC_CACHE_CHECK([whether the linker accepts $2], [cache], [
		espl_save_LDFLAGS=$LDFLAGS
		LDFLAGS="$LDFLAGS $2"
		AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([cache], [yes])],
			[AS_VAR_SET([cache], [no])])
		LDFLAGS=$espl_save_LDFLAGS])
	AS_VAR_IF([cache], [yes], [AS_VAR_APPEND([$1], [" $2"])])
	AS_VAR_POPDEF([cache])
])

AC_DEFUN([ESPL_WARNINGS], [
	AC_ARG_ENABLE([werror],
		[AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
		[], [enable_werror=no])
	WARN_CFLAGS=
	m4_foreach_w([flag], [-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
		-Wpointer-arith -Wwrite-strings -Wvla -Wformat-security -Wmissing-variable-declarations],
		[ESPL_COMPILE_FLAG([WARN_CFLAGS], flag)])
	AS_IF([test "x$enable_werror" = xyes], [AS_VAR_APPEND([WARN_CFLAGS], [" -Werror"])])
	AC_SUBST([WARN_CFLAGS])
	CODE_CFLAGS=
	m4_foreach_w([flag], [-std=gnu11 -fvisibility=hidden -ffp-contract=off],
		[ESPL_COMPILE_FLAG([CODE_CFLAGS], flag)])
	AC_SUBST([CODE_CFLAGS])
	CODE_LDFLAGS=
	ESPL_LINK_FLAG([CODE_LDFLAGS], [-Wl,--as-needed])
	AC_SUBST([CODE_LDFLAGS])
])

AC_DEFUN([ESPL_SANITIZERS], [
	AC_ARG_ENABLE([sanitizers],
		[AS_HELP_STRING([--enable-sanitizers], [build everything with -fsanitize=address,undefined])],
		[], [enable_sanitizers=no])
	SANITIZE_FLAGS=
	AS_IF([test "x$enable_sanitizers" = xyes], [
		ESPL_LINK_FLAG([SANITIZE_FLAGS], [-fsanitize=address,undefined])
		AS_IF([test "x$SANITIZE_FLAGS" = x],
			[AC_MSG_ERROR([$CC cannot link with -fsanitize=address,undefined])])
		SANITIZE_FLAGS="$SANITIZE_FLAGS -fno-sanitize-recover=all -fno-omit-frame-pointer"])
	AC_SUBST([SANITIZE_FLAGS])
])

AC_DEFUN([ESPL_COVERAGE], [
	AC_ARG_ENABLE([coverage],
		[AS_HELP_STRING([--enable-coverage], [record which lines run (gcov)])],
		[], [enable_coverage=no])
	COVERAGE_FLAGS=
	AS_IF([test "x$enable_coverage" = xyes], [
		ESPL_LINK_FLAG([COVERAGE_FLAGS], [--coverage])
		AS_IF([test "x$COVERAGE_FLAGS" = x], [AC_MSG_ERROR([$CC cannot link with --coverage])])])
	AC_SUBST([COVERAGE_FLAGS])
])

dnl Paths of the builder's do not get into what is built, through __FILE__ or debugging information: the
dnl same sources make the same programs wherever they lie.  gcov needs the true paths.
AC_DEFUN([ESPL_PATHS], [
	PATH_CFLAGS=
	AS_IF([test "x$enable_coverage" != xyes], [
		ESPL_COMPILE_FLAG([PATH_CFLAGS], [-ffile-prefix-map=/nonexistent=.])
		AS_IF([test "x$PATH_CFLAGS" != x], [PATH_CFLAGS=m4_normalize(['
			"-ffile-prefix-map=$(abs_top_builddir)=." "-ffile-prefix-map=$(abs_top_srcdir)=."
			"-ffile-prefix-map=$(top_srcdir)/=" "-ffile-prefix-map=$(abs_top_srcdir)/="'])])])
	AC_SUBST([PATH_CFLAGS])
])

dnl ESPL_LIBRARY(NAME, HEADER, FUNCTION, LIBRARY, PACKAGE): a library without a .pc file; required.
dnl Sets NAME_LIBS, empty where the C library has FUNCTION.
AC_DEFUN([ESPL_LIBRARY], [
	AC_CHECK_HEADER([$2], [],
		[AC_MSG_ERROR([the header $2 is missing (Debian: $5)])])
	espl_save_LIBS=$LIBS
	LIBS=
	AC_SEARCH_LIBS([$3], [$4], [],
		[AC_MSG_ERROR([$3 is not in lib$4 (Debian: $5)])])
	$1_LIBS=$LIBS
	LIBS=$espl_save_LIBS
	AC_SUBST([$1_LIBS])
])
