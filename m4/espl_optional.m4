dnl espl_optional.m4 - a part that is built where its libraries are found, unless it is asked for (an error if it cannot be
dnl built) or not wanted: what a package depends on is then what its recipe says, not what the building machine has.
dnl ESPL_OPTIONAL([name], [MODULE], [pkg-config's specification], [Debian package], [what it is for]): sets have_NAME to yes or no.
AC_DEFUN([ESPL_OPTIONAL], [
	AC_ARG_WITH([$1],
		[AS_HELP_STRING([--with-$1], [$5 @<:@auto@:>@])],
		[], [with_$1=auto])
	AS_CASE(["x$with_$1"], [xyes | xno | xauto], [],
		[AC_MSG_ERROR([--with-$1=$with_$1: give yes, no or auto; pkg-config (PKG_CONFIG_PATH) says where the library is])])
	have_$1=no
	AS_IF([test "x$with_$1" != xno], [
		PKG_CHECK_MODULES([$2], [$3], [have_$1=yes], [have_$1=no])
	])
	AS_IF([test "x$with_$1$have_$1" = xyesno], [AC_MSG_ERROR([--with-$1: $3 is missing (Debian: $4)])])
	AS_IF([test "x$with_$1" = xno], [espl_no_$1="not built: --without-$1"],
		[espl_no_$1="not built: $3 is missing (Debian: $4)"])
])
