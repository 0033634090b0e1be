dnl espl_cbc.m4 - the optional solver CBC, in three states (espl_cuda.m4): tests and benches of allocator milp compare
dnl its plans with CBC's.  Nothing that is installed uses it.  Sets CBC_CPPFLAGS and CBC_LIBS, empty without it.
AC_DEFUN([ESPL_CBC], [
	AC_ARG_WITH([cbc],
		[AS_HELP_STRING([--with-cbc], [the solver CBC in tests of allocator milp @<:@auto@:>@])],
		[], [with_cbc=auto])
	AS_CASE(["x$with_cbc"], [xyes | xno | xauto], [],
		[AC_MSG_ERROR([--with-cbc=$with_cbc: give yes, no or auto; pkg-config (PKG_CONFIG_PATH) says where the library is])])
	CBC_CPPFLAGS=
	espl_cbc_says="no: not asked for"
	AS_IF([test "x$with_cbc" != xno], [
		PKG_CHECK_MODULES([CBC], [cbc >= 2.10], [espl_cbc_flags=`echo "$CBC_CFLAGS" | $SED 's/-I/-isystem /g'`],
			[espl_cbc_flags=])
		CBC_LIBS=-lCbcSolver
		AC_MSG_CHECKING([for the solver CBC])
		espl_save_CPPFLAGS=$CPPFLAGS
		espl_save_LIBS=$LIBS
		CPPFLAGS="$CPPFLAGS $espl_cbc_flags"
		LIBS="$CBC_LIBS $LIBS"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <Cbc_C_Interface.h>]],
			[[Cbc_Model *model = Cbc_newModel(); Cbc_deleteModel(model);]])],
			[espl_cbc_works=yes], [espl_cbc_works=no])
		CPPFLAGS=$espl_save_CPPFLAGS
		LIBS=$espl_save_LIBS
		AC_MSG_RESULT([$espl_cbc_works])
		AS_IF([test $espl_cbc_works = yes], [
			CBC_CPPFLAGS="$espl_cbc_flags -DHAVE_CBC"
			espl_cbc_says="yes: an oracle of tests"
		], [
			CBC_LIBS=
			espl_cbc_says="no: CBC is missing (Debian: coinor-libcbc-dev)"
			AS_IF([test "x$with_cbc" = xyes],
				[AC_MSG_ERROR([--with-cbc: CBC is missing (Debian: coinor-libcbc-dev)])])
		])
	])
	AC_SUBST([CBC_CPPFLAGS])
	AC_SUBST([CBC_LIBS])
])
