dnl espl_cuda.m4 - the optional CUDA toolkit and NCCL, each in three states.  With both, the module for GPUs
dnl is built (node/cuda).
dnl   auto (default)  looked for quietly; the summary says what was found
dnl   yes or a path   an error if it is missing
dnl   no              not looked for
dnl Always defined: HAVE_CUDA and HAVE_NCCL to 0 or 1, the conditionals of the same names, and
dnl CUDA_CPPFLAGS, CUDA_LDFLAGS, CUDA_LIBS, NVCC, NCCL_CPPFLAGS, NCCL_LDFLAGS, NCCL_LIBS.

dnl ESPL_TRY_LINK(HEADER, FUNCTION, CPPFLAGS, LDFLAGS, LIBS, THEN, ELSE)
AC_DEFUN([ESPL_TRY_LINK], [
	espl_save_CPPFLAGS=$CPPFLAGS
	espl_save_LDFLAGS=$LDFLAGS
	espl_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $3"
	LDFLAGS="$LDFLAGS $4"
	LIBS="$5 $LIBS"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$1>]], [[return (int)(long)(void *)&$2;]])],
		[espl_linked=yes], [espl_linked=no])
	CPPFLAGS=$espl_save_CPPFLAGS
	LDFLAGS=$espl_save_LDFLAGS
	LIBS=$espl_save_LIBS
	AS_IF([test "x$espl_linked" = xyes], [$6], [$7])
])

AC_DEFUN([ESPL_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda@<:@=PATH@:>@], [the CUDA toolkit, for the module for GPUs @<:@auto@:>@])],
		[], [with_cuda=auto])
	have_cuda=0
	NVCC=
	CUDA_CPPFLAGS= CUDA_LDFLAGS= CUDA_LIBS=
	AS_CASE([$with_cuda],
		[no], [espl_cuda_says="no: not asked for"],
		[auto|yes], [espl_cuda_dirs="$CUDA_HOME $CUDA_PATH /usr/local/cuda /usr"],
		[espl_cuda_dirs=$with_cuda])
	AS_IF([test "x$with_cuda" != xno], [
		AC_MSG_CHECKING([for the CUDA toolkit])
		for espl_dir in $espl_cuda_dirs; do
			test -f "$espl_dir/include/cuda_runtime.h" || continue
			espl_lib=$espl_dir/lib64
			test -d "$espl_lib" || espl_lib=$espl_dir/lib
			CUDA_CPPFLAGS= CUDA_LDFLAGS=
			AS_IF([test "x$espl_dir" != x/usr],
				[CUDA_CPPFLAGS="-isystem $espl_dir/include" CUDA_LDFLAGS="-L$espl_lib -R$espl_lib"])
			CUDA_LIBS="-lcublas -lcudart"
			ESPL_TRY_LINK([cuda_runtime.h], [cudaGetDeviceCount], [$CUDA_CPPFLAGS],
				[`echo "$CUDA_LDFLAGS" | $SED 's/-R[[^ ]]*//'`], [$CUDA_LIBS], [], [continue])
			AS_IF([test -x "$espl_dir/bin/nvcc"], [NVCC=$espl_dir/bin/nvcc], [continue])
			have_cuda=1
			break
		done
		AS_IF([test $have_cuda = 1], [
			AC_MSG_RESULT([$espl_dir])
			espl_cuda_says="found in $espl_dir"
			cuda_dir=$espl_dir
		], [
			AC_MSG_RESULT([no])
			NVCC= CUDA_CPPFLAGS= CUDA_LDFLAGS= CUDA_LIBS=
			espl_cuda_says="no: not found in $espl_cuda_dirs"
			AS_IF([test "x$with_cuda" != xauto], [AC_MSG_ERROR(m4_normalize([
				--with-cuda=$with_cuda: no complete CUDA toolkit (include/cuda_runtime.h, libcudart,
				libcublas, bin/nvcc) in $espl_cuda_dirs]))])
		])
	])
	AC_DEFINE_UNQUOTED([HAVE_CUDA], [$have_cuda], [1 if the CUDA toolkit was found, else 0])
	AM_CONDITIONAL([HAVE_CUDA], [test $have_cuda = 1])
	AC_SUBST([NVCC])
	AC_SUBST([CUDA_CPPFLAGS])
	AC_SUBST([CUDA_LDFLAGS])
	AC_SUBST([CUDA_LIBS])
])

dnl Needs CUDA: NCCL's header includes CUDA's.
AC_DEFUN([ESPL_NCCL], [
	AC_REQUIRE([ESPL_CUDA])
	AC_ARG_WITH([nccl],
		[AS_HELP_STRING([--with-nccl@<:@=PATH@:>@], [NCCL, for the module for GPUs @<:@auto@:>@])],
		[], [with_nccl=auto])
	have_nccl=0
	NCCL_CPPFLAGS= NCCL_LDFLAGS= NCCL_LIBS=
	AS_CASE([$with_nccl],
		[no], [espl_nccl_says="no: not asked for"],
		[auto|yes], [espl_nccl_dirs="$NCCL_HOME $cuda_dir /usr"],
		[espl_nccl_dirs=$with_nccl])
	AS_IF([test "x$with_nccl" != xno && test $have_cuda = 0], [
		espl_nccl_says="no: it needs CUDA"
		AS_IF([test "x$with_nccl" != xauto],
			[AC_MSG_ERROR([--with-nccl=$with_nccl: NCCL needs the CUDA toolkit, which was not found])])
	], [test "x$with_nccl" != xno], [
		AC_MSG_CHECKING([for NCCL])
		for espl_dir in $espl_nccl_dirs; do
			test -f "$espl_dir/include/nccl.h" || continue
			espl_lib=$espl_dir/lib64
			test -d "$espl_lib" || espl_lib=$espl_dir/lib
			NCCL_CPPFLAGS= NCCL_LDFLAGS=
			AS_IF([test "x$espl_dir" != x/usr],
				[NCCL_CPPFLAGS="-isystem $espl_dir/include" NCCL_LDFLAGS="-L$espl_lib -R$espl_lib"])
			NCCL_LIBS=-lnccl
			ESPL_TRY_LINK([nccl.h], [ncclGetVersion], [$NCCL_CPPFLAGS $CUDA_CPPFLAGS],
				[`echo "$NCCL_LDFLAGS $CUDA_LDFLAGS" | $SED 's/-R[[^ ]]*//g'`],
				[$NCCL_LIBS $CUDA_LIBS], [], [continue])
			have_nccl=1
			break
		done
		AS_IF([test $have_nccl = 1], [
			AC_MSG_RESULT([$espl_dir])
			espl_nccl_says="found in $espl_dir; the module for GPUs is built"
		], [
			AC_MSG_RESULT([no])
			NCCL_CPPFLAGS= NCCL_LDFLAGS= NCCL_LIBS=
			espl_nccl_says="no: not found in $espl_nccl_dirs"
			AS_IF([test "x$with_nccl" != xauto], [AC_MSG_ERROR(m4_normalize([
				--with-nccl=$with_nccl: no usable NCCL (include/nccl.h, libnccl) in $espl_nccl_dirs]))])
		])
	])
	AC_DEFINE_UNQUOTED([HAVE_NCCL], [$have_nccl], [1 if NCCL was found, else 0])
	AM_CONDITIONAL([HAVE_NCCL], [test $have_nccl = 1])
	AC_SUBST([NCCL_CPPFLAGS])
	AC_SUBST([NCCL_LDFLAGS])
	AC_SUBST([NCCL_LIBS])
])
