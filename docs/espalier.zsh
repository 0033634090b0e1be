#compdef espalier
# Completion of espalier's command line for zsh.  Made by `espalier help --completion zsh`.
_espalier_settings() {
	local -a settings
	settings=(
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
		 algorithm.sampler.use= algorithm.sampler.startup= algorithm.sampler.random_fraction= algorithm.sampler.top_percent= algorithm.sampler.candidates=)
	compadd -S '' -a settings
}
_espalier_topics() {
	local -a topics
	topics=(config espalier init run resume ask plan simulate profile list status forecast best explain export report serve nodes drain undrain trial stop submit cancel queue check plugins help check-plugin version experiment trial space algorithm cloud store planning workload experiments truth ${(f)"$(espalier plugins 2>/dev/null | awk 'NF > 2 { print $1 "/" $2 }')"})
	compadd -a topics
}
_espalier() {
	local verb=$words[2]
	local -a verbs
	verbs=(
		'init:write a first configuration, for a script'
		'run:run the experiment described in FILE'
		'resume:continue an interrupted run, or extend a finished one'
		'ask:hand out trials to clients, which tell the results (ask and tell)'
		'plan:predict time and cost before anything is started'
		'simulate:simulate the run on a virtual clock'
		'profile:measure a trial'\''s scaling, sharing, start and checkpoint times'
		'list:list runs and their progress'
		'status:show the progress of a run, also while it is running'
		'forecast:say when a run will end, what it will cost, and what the rest is worth'
		'best:show the best trial of a run and its parameters'
		'explain:show what was decided for a run or a trial, when and why'
		'export:export results for other programs'
		'report:write an HTML report of what the search found and used'
		'serve:show runs in a browser while they are running'
		'nodes:list or release the machines that your runs hold'
		'drain:move all trials away from a machine, and hold it out'
		'undrain:let a machine that was drained have trials again'
		'trial:stop one trial of a running run, add one, or write a note on one'
		'stop:stop a running run cleanly, as Ctrl-C does'
		'submit:add an experiment to a running pool'
		'cancel:cancel an experiment or a plain job of a pool'
		'queue:show which experiments and jobs of a pool are running or waiting, and why'
		'check:validate a configuration without running it'
		'plugins:list the installed plugins'
		'help:show help for a command, plugin or configuration group'
		'check-plugin:test that a plugin loads and follows the rules of the ABI'
		'version:print the version of espalier')
	if (( CURRENT == 2 )); then
		if [[ $PREFIX == -* ]]; then compadd -- --help --version; return; fi
		_describe -t commands command verbs
		return
	fi
	shift words
	(( CURRENT-- ))
	case $verb in
	init) _arguments \
		'(-o --output)'{-o,--output=}'[write to FILE, which must not exist (default: standard output)]:FILE:_files' \
		'(-n --no-ask)'{-n,--no-ask}'[only read the script: do not run it with --help]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	run) _arguments \
		'(-d --dir)'{-d,--dir=}'[run directory (default: ./NAME-YYYYMMDD-HHMMSS)]:DIR:_files -/' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-q --quiet)'{-q,--quiet}'[print only the final summary]' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	resume) _arguments \
		'--accept[if plugins now decide differently, keep the recorded decisions; if the journal is damaged, discard everything after the damage]' \
		'(-n --trials)'{-n,--trials=}'[try N configurations more, or N in all, also if the search is complete]:+N|N: ' \
		'(-s --set)'{-s,--set=}'[give a secret of the cloud again, which a run directory does not store]:cloud.NAME=VALUE: ' \
		'(-q --quiet)'{-q,--quiet}'[print only the final summary]' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	ask) _arguments \
		'(-d --dir)'{-d,--dir=}'[run directory; opened if it exists (default: ./NAME-YYYYMMDD-HHMMSS)]:DIR:_files -/' \
		'(-n --trials)'{-n,--trials=}'[try N configurations more, or N in all, also if the search is complete]:+N|N: ' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	plan) _arguments \
		'(-a --allocator)'{-a,--allocator=}'[plan with this allocator instead of the one in FILE]:NAME: ' \
		'(-c --compare)'{-c,--compare}'[compare all allocators that can plan]' \
		'(-f --frontier)'{-f,--frontier}'[show the cost of different deadlines]' \
		'(-g --gpus)'{-g,--gpus=}'[predict this plan: GPUs per stage, or one number for all]:N[,N...]: ' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	simulate) _arguments \
		'--seed=[random seed (default: experiment.seed; a pool'\''s experiments keep their own)]:N: ' \
		'(-n --runs)'{-n,--runs=}'[simulate N times, with consecutive seeds]:N: ' \
		'--faults=[inject the faults listed in FILE: lost nodes, failing trials]:FILE:_files' \
		'--curves-from=[replay the learning curves of RUN (a run directory or a CSV file) instead of training]:RUN:_files' \
		'(-d --dir)'{-d,--dir=}'[store journal and results in DIR (default: store nothing)]:DIR:_files -/' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-q --quiet)'{-q,--quiet}'[print only the final summary]' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	profile) _arguments \
		'(-o --output)'{-o,--output=}'[also write the profile to this file]:PROFILE.json:_files' \
		'(-n --iterations)'{-n,--iterations=}'[time N iterations per measurement (default: 3 to 20, as needed)]:N: ' \
		'(-t --time-limit)'{-t,--time-limit=}'[time limit per measurement (default: 10m; 0s: none)]:SPAN: ' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-q --quiet)'{-q,--quiet}'[print only the final summary]' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	list) _arguments \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	status) _arguments \
		'(-w --watch)'{-w,--watch}'[print the status every second until the run ends]' \
		'(-q --quiet)'{-q,--quiet}'[print a single line]' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	forecast) _arguments \
		'--at=[forecast as after this part of the journal, such as 50%]:PERCENT: ' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	best) _arguments \
		'(-n --top)'{-n,--top=}'[print the best N trials]:N: ' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	explain) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	export) _arguments \
		'(-f --format)'{-f,--format=}'[output format; csv exports one table, json all of them, tensorboard the metrics and parameters]:csv|json|tensorboard:(csv json tensorboard)' \
		'(-t --table)'{-t,--table=}'[table to export as csv: trials (default), reports, gangs, stays, resizes, nodes, charges, groups, predictions, plan, decisions, notes, trial_notes, experiments, jobs, gpu_map, importance or schedule]:NAME: ' \
		'(-o --output)'{-o,--output=}'[output file (default: standard output); of tensorboard a directory (default: DIR/tensorboard)]:OUT:_files' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	report) _arguments \
		'(-o --output)'{-o,--output=}'[output file (default: DIR/report.html; -: standard output)]:FILE.html:_files' \
		'(-l --log)'{-l,--log}'[start with logarithmic axes; the page offers both]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	serve) _arguments \
		'(-p --port)'{-p,--port=}'[port to listen on (default: a free one)]:N: ' \
		'--control[let the page stop runs, and submit to pools and cancel in them (default: read-only)]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	nodes) _arguments \
		'(-c --config)'{-c,--config=}'[ask the cloud of this configuration file]:FILE:_files' \
		'--release=[release all machines of RUN, a run directory or the name of a run as listed]:RUN:_files' \
		'--force[with --release: also if the directory of the run is not known here]' \
		'(-s --set)'{-s,--set=}'[give a secret of the cloud again, which a run directory does not store]:cloud.NAME=VALUE: ' \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	drain) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	undrain) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	trial) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	stop) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	submit) _arguments \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	cancel) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	queue) _arguments \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files -/' ;;
	check) _arguments \
		'(-o --output)'{-o,--output=}'[also try trial.metrics on LOG, a file of the program'\''s output]:LOG:_files' \
		'*'{-s,--set=}'[override a value in FILE (repeatable)]:PATH=VALUE:_espalier_settings' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	plugins) _arguments \
		'(-j --json)'{-j,--json}'[print only JSON on standard output]' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' ;;
	help) _arguments \
		'--all[also show experimental options]' \
		'(-k --keyword)'{-k,--keyword=}'[list every option and command whose help mentions WORD]:WORD: ' \
		'--markdown[print Markdown]' \
		'--man[print the source of a manual page]' \
		'--completion=[print a completion script: source <(espalier help --completion bash)]:bash|zsh|fish:(bash zsh fish)' \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_espalier_topics' ;;
	check-plugin) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' \
		'*: :_files' ;;
	version) _arguments \
		'(-h --help)'{-h,--help}'[show this help]' \
		'(-P --plugins)'{-P,--plugins=}'[search this directory for plugins first]:DIR:_files -/' ;;
	esac
}
# Loaded by name from a directory of $fpath, or sourced.
if [[ ${funcstack[1]} == _espalier ]]; then _espalier "$@"; else compdef _espalier espalier; fi
