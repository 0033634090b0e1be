# Completion of espalier's command line for bash.  Made by `espalier help --completion bash`.
_espalier() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	local verb=${COMP_WORDS[1]} kind='' words=''
	# bash makes three words of --NAME=VALUE.
	if [ "$prev" = '=' ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
	if [ "$cur" = '=' ]; then cur=''; fi
	if [ "$COMP_CWORD" -eq 1 ]; then verb=''; fi
	case $verb:$cur in
	:*) kind=-W words='init run resume ask plan simulate profile list status forecast best explain export report serve nodes drain undrain trial stop submit cancel queue check plugins help check-plugin version --help --version' ;;
	init:-*) kind=-W words='--output --no-ask --help --plugins' ;;
	init:*) kind=-f ;;
	run:-*) kind=-W words='--dir --set --quiet --json --help --plugins' ;;
	run:*) kind=-f ;;
	resume:-*) kind=-W words='--accept --trials --set --quiet --json --help --plugins' ;;
	resume:*) kind=-d ;;
	ask:-*) kind=-W words='--dir --trials --set --help --plugins' ;;
	ask:*) kind=-f ;;
	plan:-*) kind=-W words='--allocator --compare --frontier --gpus --set --json --help --plugins' ;;
	plan:*) kind=-f ;;
	simulate:-*) kind=-W words='--seed --runs --faults --curves-from --dir --set --quiet --json --help --plugins' ;;
	simulate:*) kind=-f ;;
	profile:-*) kind=-W words='--output --iterations --time-limit --set --quiet --json --help --plugins' ;;
	profile:*) kind=-f ;;
	list:-*) kind=-W words='--json --help --plugins' ;;
	list:*) kind=-d ;;
	status:-*) kind=-W words='--watch --quiet --json --help --plugins' ;;
	status:*) kind=-d ;;
	forecast:-*) kind=-W words='--at --json --help --plugins' ;;
	forecast:*) kind=-d ;;
	best:-*) kind=-W words='--top --json --help --plugins' ;;
	best:*) kind=-d ;;
	explain:-*) kind=-W words='--help --plugins' ;;
	explain:*) kind=-d ;;
	export:-*) kind=-W words='--format --table --output --help --plugins' ;;
	export:*) kind=-d ;;
	report:-*) kind=-W words='--output --log --help --plugins' ;;
	report:*) kind=-d ;;
	serve:-*) kind=-W words='--port --control --help --plugins' ;;
	serve:*) kind=-d ;;
	nodes:-*) kind=-W words='--config --release --force --set --json --help --plugins' ;;
	nodes:*) kind=-d ;;
	drain:-*) kind=-W words='--help --plugins' ;;
	drain:*) kind=-d ;;
	undrain:-*) kind=-W words='--help --plugins' ;;
	undrain:*) kind=-d ;;
	trial:-*) kind=-W words='--help --plugins' ;;
	trial:*) kind=-f ;;
	stop:-*) kind=-W words='--help --plugins' ;;
	stop:*) kind=-d ;;
	submit:-*) kind=-W words='--set --help --plugins' ;;
	submit:*) kind=-f ;;
	cancel:-*) kind=-W words='--help --plugins' ;;
	cancel:*) kind=-d ;;
	queue:-*) kind=-W words='--json --help --plugins' ;;
	queue:*) kind=-d ;;
	check:-*) kind=-W words='--output --set --help --plugins' ;;
	check:*) kind=-f ;;
	plugins:-*) kind=-W words='--json --help --plugins' ;;
	plugins:*) kind= ;;
	help:-*) kind=-W words='--all --keyword --markdown --man --completion --help --plugins' ;;
	help:*) kind=topics ;;
	check-plugin:-*) kind=-W words='--help --plugins' ;;
	check-plugin:*) kind=-f ;;
	version:-*) kind=-W words='--help --plugins' ;;
	version:*) kind= ;;
	esac
	case $verb:$prev in
	init:--output|init:-o) kind=-f ;;
	init:--plugins|init:-P) kind=-d ;;
	run:--dir|run:-d) kind=-d ;;
	run:--set|run:-s) kind=settings ;;
	run:--plugins|run:-P) kind=-d ;;
	resume:--trials|resume:-n) kind= ;;
	resume:--set|resume:-s) kind= ;;
	resume:--plugins|resume:-P) kind=-d ;;
	ask:--dir|ask:-d) kind=-d ;;
	ask:--trials|ask:-n) kind= ;;
	ask:--set|ask:-s) kind=settings ;;
	ask:--plugins|ask:-P) kind=-d ;;
	plan:--allocator|plan:-a) kind= ;;
	plan:--gpus|plan:-g) kind= ;;
	plan:--set|plan:-s) kind=settings ;;
	plan:--plugins|plan:-P) kind=-d ;;
	simulate:--seed) kind= ;;
	simulate:--runs|simulate:-n) kind= ;;
	simulate:--faults) kind=-f ;;
	simulate:--curves-from) kind=-f ;;
	simulate:--dir|simulate:-d) kind=-d ;;
	simulate:--set|simulate:-s) kind=settings ;;
	simulate:--plugins|simulate:-P) kind=-d ;;
	profile:--output|profile:-o) kind=-f ;;
	profile:--iterations|profile:-n) kind= ;;
	profile:--time-limit|profile:-t) kind= ;;
	profile:--set|profile:-s) kind=settings ;;
	profile:--plugins|profile:-P) kind=-d ;;
	list:--plugins|list:-P) kind=-d ;;
	status:--plugins|status:-P) kind=-d ;;
	forecast:--at) kind= ;;
	forecast:--plugins|forecast:-P) kind=-d ;;
	best:--top|best:-n) kind= ;;
	best:--plugins|best:-P) kind=-d ;;
	explain:--plugins|explain:-P) kind=-d ;;
	export:--format|export:-f) kind=-W words='csv json tensorboard' ;;
	export:--table|export:-t) kind= ;;
	export:--output|export:-o) kind=-f ;;
	export:--plugins|export:-P) kind=-d ;;
	report:--output|report:-o) kind=-f ;;
	report:--plugins|report:-P) kind=-d ;;
	serve:--port|serve:-p) kind= ;;
	serve:--plugins|serve:-P) kind=-d ;;
	nodes:--config|nodes:-c) kind=-f ;;
	nodes:--release) kind=-f ;;
	nodes:--set|nodes:-s) kind= ;;
	nodes:--plugins|nodes:-P) kind=-d ;;
	drain:--plugins|drain:-P) kind=-d ;;
	undrain:--plugins|undrain:-P) kind=-d ;;
	trial:--plugins|trial:-P) kind=-d ;;
	stop:--plugins|stop:-P) kind=-d ;;
	submit:--set|submit:-s) kind=settings ;;
	submit:--plugins|submit:-P) kind=-d ;;
	cancel:--plugins|cancel:-P) kind=-d ;;
	queue:--plugins|queue:-P) kind=-d ;;
	check:--output|check:-o) kind=-f ;;
	check:--set|check:-s) kind=settings ;;
	check:--plugins|check:-P) kind=-d ;;
	plugins:--plugins|plugins:-P) kind=-d ;;
	help:--keyword|help:-k) kind= ;;
	help:--completion) kind=-W words='bash zsh fish' ;;
	help:--plugins|help:-P) kind=-d ;;
	check-plugin:--plugins|check-plugin:-P) kind=-d ;;
	version:--plugins|version:-P) kind=-d ;;
	esac
	case $kind in
	-W) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
	-f|-d) COMPREPLY=($(compgen "$kind" -- "$cur")) ;;
	topics)
		words="config espalier init run resume ask plan simulate profile list status forecast best explain export report serve nodes drain undrain trial stop submit cancel queue check plugins help check-plugin version experiment trial space algorithm cloud store planning workload experiments truth $(espalier plugins 2>/dev/null | awk 'NF > 2 { print $1 "/" $2 }')"
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		;;
	settings)
		words='
		 experiment.name= experiment.metric= experiment.goal= experiment.deadline= experiment.budget= experiment.target= experiment.patience= experiment.seed= experiment.seeds= experiment.confirm= experiment.data_gb= experiment.sync= experiment.weight= experiment.gpus_max= experiment.inner= experiment.first= experiment.forbid= experiment.require= experiment.failures_max= experiment.warm_start.from= experiment.warm_start.best=
		 trial.trainable= trial.curves= trial.directory= trial.gpus_min= trial.gpus_max= trial.packing_max= trial.sharing= trial.checkpoint= trial.checkpoint_every= trial.in_place= trial.retries= trial.colocate= trial.report_limit= trial.time_limit= trial.save_limit= trial.grace= trial.file_max= trial.log_limit= trial.torchrun= trial.warm= trial.command= trial.metrics.file= trial.metrics.from= trial.metrics.format= trial.metrics.pattern= trial.metrics.iteration= trial.metrics.first= trial.metrics.per_iteration= trial.metrics.best= trial.options= trial.profile= trial.files= trial.setup= trial.env= trial.env_from=
		 space.NAME.type= space.NAME.low, NAME.high= space.NAME.scale= space.NAME.quantum= space.NAME.mean, NAME.sd= space.NAME.values= space.NAME.default= space.NAME.when=
		 algorithm.resource= algorithm.resource_step=
		 cloud.patience= cloud.linger= cloud.after_linger= cloud.give_up=
		 store.use= store.bucket= store.prefix= store.region= store.endpoint= store.profile= store.owner= store.part_mb= store.checksums= store.collect=
		 planning.queue= planning.warm= planning.acquire_ahead= planning.release= planning.samples= planning.risk=
		 workload.trace= workload.unit= workload.iteration= workload.step= workload.doubling= workload.elastic= workload.noise= workload.redraw= workload.jobs= workload.small= workload.span= workload.mean= workload.m= workload.sigma= workload.least= workload.stratified= workload.arrivals= workload.nodes_max= workload.bugs= workload.terminated=
		 experiments.file= experiments.arrives= experiments.name= experiments.weight= experiments.gpus_max= experiments.inner=
		 truth.profile=
		 algorithm.use= algorithm.trials= algorithm.iterations_min= algorithm.iterations_max= algorithm.eta= algorithm.brackets= algorithm.mode= algorithm.to_end= algorithm.repeats= algorithm.sampler= algorithm.passes= algorithm.rungs= algorithm.random_fraction= algorithm.top_percent= algorithm.min_points= algorithm.candidates= algorithm.bandwidth_factor= algorithm.bandwidth_min= algorithm.points= algorithm.levels_max= algorithm.order= algorithm.rounding= algorithm.trials_min= algorithm.grace= algorithm.interval= algorithm.population= algorithm.populations= algorithm.exploit= algorithm.quantile= algorithm.resample= algorithm.perturb_down= algorithm.perturb_up= algorithm.keep= algorithm.schedule= algorithm.scramble= algorithm.theta= algorithm.mcnt= algorithm.extrapolator= algorithm.ceiling= algorithm.plateau= algorithm.stages= algorithm.startup=
		 allocator.use= allocator.gpus_max= allocator.offer= allocator.allocations= allocator.effort= allocator.variant= allocator.starts= allocator.gpus= allocator.resize= allocator.packing= allocator.take= allocator.overtake= allocator.mode= allocator.probe= allocator.benefit= allocator.gain= allocator.degree= allocator.period= allocator.halvings= allocator.events= allocator.engine= allocator.policy= allocator.steps= allocator.keep= allocator.fill= allocator.floor= allocator.beta= allocator.delay= allocator.slowdown= allocator.poor= allocator.doubling= allocator.gap= allocator.weights= allocator.level= allocator.tail= allocator.step= allocator.preempt= allocator.refund= allocator.predictor= allocator.rate= allocator.window= allocator.max_price= allocator.margin_min= allocator.margin_max= allocator.margin_relative= allocator.renew= allocator.redeploy= allocator.losses= allocator.hazard= allocator.hazard_hours= allocator.switching= allocator.cooldown= allocator.on_demand= allocator.wait= allocator.returns=
		 cloud.use= cloud.region= cloud.profile= cloud.endpoint= cloud.offers= cloud.image= cloud.user= cloud.key= cloud.key_name= cloud.security_group= cloud.address= cloud.ssh= cloud.agent= cloud.tags= cloud.poll= cloud.boot_timeout= cloud.settle= cloud.orphan= cloud.lease_max= cloud.prices= cloud.host_key= cloud.acquire= cloud.release= cloud.list= cloud.reach= cloud.limit= cloud.token= cloud.token_command= cloud.project= cloud.network= cloud.subnetwork= cloud.disk= cloud.disk_type= cloud.public_key= cloud.service_account= cloud.template= cloud.context= cloud.namespace= cloud.kubectl= cloud.gpus= cloud.gpu_type= cloud.gpu_resource= cloud.cpus= cloud.memory= cloud.nodes_max= cloud.price_gpu_hour= cloud.time= cloud.notice= cloud.grace= cloud.wait= cloud.start= cloud.idle= cloud.nodes= cloud.device= cloud.price= cloud.minimum_charge= cloud.data_price_gb= cloud.share= cloud.interruptions= cloud.only= cloud.partition= cloud.qos= cloud.account= cloud.constraint= cloud.gres= cloud.arguments= cloud.answer_limit= cloud.inside= cloud.hosts= cloud.connect_limit=
		 placer.use= placer.shares=
		 trial.trainable= trial.options.bias= trial.options.noise= trial.options.z_max= trial.options.regret= trial.options.throws= trial.options.iteration_s= trial.options.open_s=
		 algorithm.sampler.use= algorithm.sampler.startup= algorithm.sampler.random_fraction= algorithm.sampler.top_percent= algorithm.sampler.candidates='
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		compopt -o nospace 2>/dev/null
		;;
	*) COMPREPLY=() ;;
	esac
}
complete -o filenames -F _espalier espalier
