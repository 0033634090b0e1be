dnl espl_cbc.m4 - the optional solver CBC, in three states (espl_cuda.m4).  Its header is needed here; its
dnl library is opened at run time, by the name found here, and only where allocator milp is told to use it.
dnl Sets CBC_CPPFLAGS, empty without it.
AC_DEFUN([ESPL_CBC], [
	AC_REQUIRE([LT_INIT])
	AC_ARG_WITH([cbc],
		[AS_HELP_STRING([--with-cbc], [the solver CBC as an engine of allocator milp @<:@auto@:>@])],
		[], [with_cbc=auto])
	CBC_CPPFLAGS=
	espl_cbc_says="no: not asked for"
	AS_IF([test "x$with_cbc" != xno], [
		PKG_CHECK_MODULES([CBC], [cbc >= 2.10], [espl_cbc_flags=`echo "$CBC_CFLAGS" | $SED 's/-I/-isystem /g'`],
			[espl_cbc_flags= CBC_LIBS=-lCbcSolver])
		AC_MSG_CHECKING([for the file name of CBC's library])
		espl_cbc_name=
		espl_save_CPPFLAGS=$CPPFLAGS
		espl_save_LIBS=$LIBS
		CPPFLAGS="$CPPFLAGS $espl_cbc_flags"
		LIBS="$CBC_LIBS $LIBS"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <Cbc_C_Interface.h>]],
			[[Cbc_Model *model = Cbc_newModel(); Cbc_deleteModel(model);]])],
			[espl_cbc_name=`${OBJDUMP-objdump} -p conftest$ac_exeext 2>/dev/null |
				$SED -n 's/.*NEEDED  *\(libCbcSolver\.so[[^ ]]*\).*/\1/p'`])
		CPPFLAGS=$espl_save_CPPFLAGS
		LIBS=$espl_save_LIBS
		AS_IF([test "x$espl_cbc_name" != x], [
			AC_MSG_RESULT([$espl_cbc_name])
			CBC_CPPFLAGS="$espl_cbc_flags -DMILP_CBC_LIBRARY='\"$espl_cbc_name\"'"
			espl_cbc_says="engine cbc of allocator milp, with $espl_cbc_name"
		], [
			AC_MSG_RESULT([none])
			espl_cbc_says="no engine cbc: CBC is missing (Debian: coinor-libcbc-dev)"
			AS_IF([test "x$with_cbc" = xyes],
				[AC_MSG_ERROR([--with-cbc: CBC is missing (Debian: coinor-libcbc-dev)])])
		])
	])
	AC_SUBST([CBC_CPPFLAGS])
])
