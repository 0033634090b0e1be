dnl espl_plugins.m4 - which plugins are linked in and which are files.
dnl
dnl A plugin's block (plugins/plugins.am) is the same for both.  The choice is made by make, with
dnl functions of GNU make that automake need not understand: hence the substituted variables.
dnl   BUILTIN_PLUGINS    those of $(PLUGINS) that are linked into the core library
dnl   LOADABLE_PLUGINS   those that become files in $(plugindir)
dnl   PLUGIN_FLAGS     the link flags of the plugin being made ($@), by that choice
AC_DEFUN([ESPL_PLUGINS], [
	AC_ARG_ENABLE([builtin-plugins],
		[AS_HELP_STRING([--enable-builtin-plugins=LIST], m4_normalize([plugins linked into the
			programs: all, none or names such as algorithm_random,allocator_fair
			@<:@none; all with --disable-shared@:>@]))],
		[], [enable_builtin_plugins=default])
	AS_CASE([$enable_builtin_plugins],
		[default], [AS_IF([test "x$espl_shared" != xno],
			[espl_builtin=none], [espl_builtin=all])],
		[no], [espl_builtin=none],
		[yes], [espl_builtin=all],
		[espl_builtin=`echo "$enable_builtin_plugins" | tr ',/' ' _'`])
	plugindir='${pkglibdir}/plugins'
	AC_SUBST([plugindir])

	AS_CASE([$espl_builtin],
		[all], [BUILTIN_PLUGINS='$(PLUGINS)'],
		[none], [BUILTIN_PLUGINS=],
		[BUILTIN_PLUGINS=
		for espl_plugin in $espl_builtin; do
			AS_IF([cat "$srcdir"/plugins/*/*.am "$srcdir"/examples/*/*.am |
				grep "^PLUGINS += plugins/$espl_plugin\.la" >/dev/null], [],
				[AC_MSG_ERROR([--enable-builtin-plugins: there is no plugin '$espl_plugin'])])
			AS_VAR_APPEND([BUILTIN_PLUGINS], [" plugins/$espl_plugin.la"])
		done])
	AC_SUBST([BUILTIN_PLUGINS])
	AS_IF([test "x$espl_shared" != xno],
		[LOADABLE_PLUGINS='$(filter-out $(BUILTIN_PLUGINS),$(PLUGINS))'], [LOADABLE_PLUGINS=])
	AC_SUBST([LOADABLE_PLUGINS])

	# A plugin needs nothing of ours: an undefined symbol is an error when it is made, not when
	# it is called.  Sanitizers leave symbols to the program, so there the check must rest.
	PLUGIN_DEFS_FLAGS=
	AS_IF([test "x$SANITIZE_FLAGS" = x], [
		ESPL_LINK_FLAG([PLUGIN_DEFS_FLAGS], [-Wl,-z,defs])
		ESPL_LINK_FLAG([PLUGIN_DEFS_FLAGS], [-Wl,-z,now])
		# A plugin keeps no more of a convenience library than it uses.
		ESPL_LINK_FLAG([PLUGIN_DEFS_FLAGS], [-Wl,--gc-sections])])
	AC_SUBST([PLUGIN_DEFS_FLAGS])
	PLUGIN_FLAGS='$(AM_LDFLAGS) $(if $(filter $(@),$(BUILTIN_PLUGINS)),,$(LOADABLE_FLAGS))'
	AC_SUBST([PLUGIN_FLAGS])

	AS_IF([test "x$espl_builtin" = xall], [espl_plugins_say="linked into the programs"],
		[test "x$espl_builtin" = xnone], [espl_plugins_say="files"],
		[espl_plugins_say="files, but linked in: $espl_builtin"])
	AS_IF([test "x$espl_shared" = xno && test "x$espl_builtin" = xnone],
		[AC_MSG_ERROR([--disable-shared with no builtin plugin leaves no plugin at all])])
])
