# Completion of espalier's command line for fish.  Made by `espalier help --completion fish`.
# Is this the command, or, without an argument, is there none yet?
function __espalier_verb
	set -l words (commandline -opc)
	test "$words[2]" = "$argv[1]"
end
function __espalier_settings
	printf '%s\n' \
		 experiment.name= experiment.metric= experiment.goal= experiment.deadline= experiment.budget= experiment.target= experiment.patience= experiment.seed= experiment.seeds= experiment.confirm= experiment.data_gb= experiment.sync= experiment.weight= experiment.gpus_max= experiment.inner= experiment.first= experiment.forbid= experiment.require= experiment.failures_max= experiment.warm_start.from= experiment.warm_start.best= \
		 trial.trainable= trial.curves= trial.directory= trial.gpus_min= trial.gpus_max= trial.packing_max= trial.sharing= trial.checkpoint= trial.checkpoint_every= trial.in_place= trial.retries= trial.colocate= trial.report_limit= trial.time_limit= trial.save_limit= trial.grace= trial.file_max= trial.log_limit= trial.torchrun= trial.warm= trial.command= trial.metrics.file= trial.metrics.from= trial.metrics.format= trial.metrics.pattern= trial.metrics.iteration= trial.metrics.first= trial.metrics.per_iteration= trial.metrics.best= trial.options= trial.profile= trial.files= trial.setup= trial.env= trial.env_from= \
		 space.NAME.type= space.NAME.low, NAME.high= space.NAME.scale= space.NAME.quantum= space.NAME.mean, NAME.sd= space.NAME.values= space.NAME.default= space.NAME.when= \
		 algorithm.resource= algorithm.resource_step= \
		 cloud.patience= cloud.linger= cloud.after_linger= cloud.give_up= \
		 store.use= store.bucket= store.prefix= store.region= store.endpoint= store.profile= store.owner= store.part_mb= store.checksums= store.collect= \
		 planning.queue= planning.warm= planning.acquire_ahead= planning.release= planning.samples= planning.risk= \
		 workload.trace= workload.unit= workload.iteration= workload.step= workload.doubling= workload.elastic= workload.noise= workload.redraw= workload.jobs= workload.small= workload.span= workload.mean= workload.m= workload.sigma= workload.least= workload.stratified= workload.arrivals= workload.nodes_max= workload.bugs= workload.terminated= \
		 experiments.file= experiments.arrives= experiments.name= experiments.weight= experiments.gpus_max= experiments.inner= \
		 truth.profile= \
		 algorithm.use= algorithm.trials= algorithm.iterations_min= algorithm.iterations_max= algorithm.eta= algorithm.brackets= algorithm.mode= algorithm.to_end= algorithm.repeats= algorithm.sampler= algorithm.passes= algorithm.rungs= algorithm.random_fraction= algorithm.top_percent= algorithm.min_points= algorithm.candidates= algorithm.bandwidth_factor= algorithm.bandwidth_min= algorithm.points= algorithm.levels_max= algorithm.order= algorithm.rounding= algorithm.trials_min= algorithm.grace= algorithm.interval= algorithm.population= algorithm.populations= algorithm.exploit= algorithm.quantile= algorithm.resample= algorithm.perturb_down= algorithm.perturb_up= algorithm.keep= algorithm.schedule= algorithm.scramble= algorithm.theta= algorithm.mcnt= algorithm.extrapolator= algorithm.ceiling= algorithm.plateau= algorithm.stages= algorithm.startup= \
		 allocator.use= allocator.gpus_max= allocator.offer= allocator.allocations= allocator.effort= allocator.variant= allocator.starts= allocator.gpus= allocator.resize= allocator.packing= allocator.take= allocator.overtake= allocator.mode= allocator.probe= allocator.benefit= allocator.gain= allocator.degree= allocator.period= allocator.halvings= allocator.events= allocator.engine= allocator.policy= allocator.steps= allocator.keep= allocator.fill= allocator.floor= allocator.beta= allocator.delay= allocator.slowdown= allocator.poor= allocator.doubling= allocator.gap= allocator.weights= allocator.level= allocator.tail= allocator.step= allocator.preempt= allocator.refund= allocator.predictor= allocator.rate= allocator.window= allocator.max_price= allocator.margin_min= allocator.margin_max= allocator.margin_relative= allocator.renew= allocator.redeploy= allocator.losses= allocator.hazard= allocator.hazard_hours= allocator.switching= allocator.cooldown= allocator.on_demand= allocator.wait= allocator.returns= \
		 cloud.use= cloud.region= cloud.profile= cloud.endpoint= cloud.offers= cloud.image= cloud.user= cloud.key= cloud.key_name= cloud.security_group= cloud.address= cloud.ssh= cloud.agent= cloud.tags= cloud.poll= cloud.boot_timeout= cloud.settle= cloud.orphan= cloud.lease_max= cloud.prices= cloud.host_key= cloud.acquire= cloud.release= cloud.list= cloud.reach= cloud.limit= cloud.token= cloud.token_command= cloud.project= cloud.network= cloud.subnetwork= cloud.disk= cloud.disk_type= cloud.public_key= cloud.service_account= cloud.template= cloud.context= cloud.namespace= cloud.kubectl= cloud.gpus= cloud.gpu_type= cloud.gpu_resource= cloud.cpus= cloud.memory= cloud.nodes_max= cloud.price_gpu_hour= cloud.time= cloud.notice= cloud.grace= cloud.wait= cloud.start= cloud.idle= cloud.nodes= cloud.device= cloud.price= cloud.minimum_charge= cloud.data_price_gb= cloud.share= cloud.interruptions= cloud.only= cloud.partition= cloud.qos= cloud.account= cloud.constraint= cloud.gres= cloud.arguments= cloud.answer_limit= cloud.inside= cloud.hosts= cloud.connect_limit= \
		 placer.use= placer.shares= \
		 trial.trainable= trial.options.bias= trial.options.noise= trial.options.z_max= trial.options.regret= trial.options.throws= trial.options.iteration_s= trial.options.open_s= \
		 algorithm.sampler.use= algorithm.sampler.startup= algorithm.sampler.random_fraction= algorithm.sampler.top_percent= algorithm.sampler.candidates=
end
function __espalier_topics
	printf '%s\n' config espalier init run resume ask plan simulate profile list status forecast best explain export report serve nodes drain undrain trial stop submit cancel queue check plugins help check-plugin version experiment trial space algorithm cloud store planning workload experiments truth
	espalier plugins 2>/dev/null | awk 'NF > 2 { print $1 "/" $2 }'
end
complete -c espalier -f
complete -c espalier -n '__espalier_verb' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb' -l version -d 'print the version'

complete -c espalier -n '__espalier_verb' -a init -d 'write a first configuration, for a script'
complete -c espalier -n '__espalier_verb init' -l output -s o -r -F -d 'write to FILE, which must not exist (default: standard output)'
complete -c espalier -n '__espalier_verb init' -l no-ask -s n -d 'only read the script: do not run it with --help'
complete -c espalier -n '__espalier_verb init' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb init' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb init' -F

complete -c espalier -n '__espalier_verb' -a run -d 'run the experiment described in FILE'
complete -c espalier -n '__espalier_verb run' -l dir -s d -x -a '(__fish_complete_directories)' -d 'run directory (default: ./NAME-YYYYMMDD-HHMMSS)'
complete -c espalier -n '__espalier_verb run' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb run' -l quiet -s q -d 'print only the final summary'
complete -c espalier -n '__espalier_verb run' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb run' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb run' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb run' -F

complete -c espalier -n '__espalier_verb' -a resume -d 'continue an interrupted run, or extend a finished one'
complete -c espalier -n '__espalier_verb resume' -l accept -d 'if plugins now decide differently, keep the recorded decisions; if the journal is damaged, discard everything after the damage'
complete -c espalier -n '__espalier_verb resume' -l trials -s n -x -d 'try N configurations more, or N in all, also if the search is complete'
complete -c espalier -n '__espalier_verb resume' -l set -s s -x -d 'give a secret of the cloud again, which a run directory does not store'
complete -c espalier -n '__espalier_verb resume' -l quiet -s q -d 'print only the final summary'
complete -c espalier -n '__espalier_verb resume' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb resume' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb resume' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb resume' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a ask -d 'hand out trials to clients, which tell the results (ask and tell)'
complete -c espalier -n '__espalier_verb ask' -l dir -s d -x -a '(__fish_complete_directories)' -d 'run directory; opened if it exists (default: ./NAME-YYYYMMDD-HHMMSS)'
complete -c espalier -n '__espalier_verb ask' -l trials -s n -x -d 'try N configurations more, or N in all, also if the search is complete'
complete -c espalier -n '__espalier_verb ask' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb ask' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb ask' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb ask' -F

complete -c espalier -n '__espalier_verb' -a plan -d 'predict time and cost before anything is started'
complete -c espalier -n '__espalier_verb plan' -l allocator -s a -x -d 'plan with this allocator instead of the one in FILE'
complete -c espalier -n '__espalier_verb plan' -l compare -s c -d 'compare all allocators that can plan'
complete -c espalier -n '__espalier_verb plan' -l frontier -s f -d 'show the cost of different deadlines'
complete -c espalier -n '__espalier_verb plan' -l gpus -s g -x -d 'predict this plan: GPUs per stage, or one number for all'
complete -c espalier -n '__espalier_verb plan' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb plan' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb plan' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb plan' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb plan' -F

complete -c espalier -n '__espalier_verb' -a simulate -d 'simulate the run on a virtual clock'
complete -c espalier -n '__espalier_verb simulate' -l seed -x -d 'random seed (default: experiment.seed; a pool\'s experiments keep their own)'
complete -c espalier -n '__espalier_verb simulate' -l runs -s n -x -d 'simulate N times, with consecutive seeds'
complete -c espalier -n '__espalier_verb simulate' -l faults -r -F -d 'inject the faults listed in FILE: lost nodes, failing trials'
complete -c espalier -n '__espalier_verb simulate' -l curves-from -r -F -d 'replay the learning curves of RUN (a run directory or a CSV file) instead of training'
complete -c espalier -n '__espalier_verb simulate' -l dir -s d -x -a '(__fish_complete_directories)' -d 'store journal and results in DIR (default: store nothing)'
complete -c espalier -n '__espalier_verb simulate' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb simulate' -l quiet -s q -d 'print only the final summary'
complete -c espalier -n '__espalier_verb simulate' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb simulate' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb simulate' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb simulate' -F

complete -c espalier -n '__espalier_verb' -a profile -d 'measure a trial\'s scaling, sharing, start and checkpoint times'
complete -c espalier -n '__espalier_verb profile' -l output -s o -r -F -d 'also write the profile to this file'
complete -c espalier -n '__espalier_verb profile' -l iterations -s n -x -d 'time N iterations per measurement (default: 3 to 20, as needed)'
complete -c espalier -n '__espalier_verb profile' -l time-limit -s t -x -d 'time limit per measurement (default: 10m; 0s: none)'
complete -c espalier -n '__espalier_verb profile' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb profile' -l quiet -s q -d 'print only the final summary'
complete -c espalier -n '__espalier_verb profile' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb profile' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb profile' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb profile' -F

complete -c espalier -n '__espalier_verb' -a list -d 'list runs and their progress'
complete -c espalier -n '__espalier_verb list' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb list' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb list' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb list' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a status -d 'show the progress of a run, also while it is running'
complete -c espalier -n '__espalier_verb status' -l watch -s w -d 'print the status every second until the run ends'
complete -c espalier -n '__espalier_verb status' -l quiet -s q -d 'print a single line'
complete -c espalier -n '__espalier_verb status' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb status' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb status' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb status' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a forecast -d 'say when a run will end, what it will cost, and what the rest is worth'
complete -c espalier -n '__espalier_verb forecast' -l at -x -d 'forecast as after this part of the journal, such as 50%'
complete -c espalier -n '__espalier_verb forecast' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb forecast' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb forecast' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb forecast' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a best -d 'show the best trial of a run and its parameters'
complete -c espalier -n '__espalier_verb best' -l top -s n -x -d 'print the best N trials'
complete -c espalier -n '__espalier_verb best' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb best' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb best' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb best' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a explain -d 'show what was decided for a run or a trial, when and why'
complete -c espalier -n '__espalier_verb explain' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb explain' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb explain' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a export -d 'export results for other programs'
complete -c espalier -n '__espalier_verb export' -l format -s f -x -a 'csv json tensorboard' -d 'output format; csv exports one table, json all of them, tensorboard the metrics and parameters'
complete -c espalier -n '__espalier_verb export' -l table -s t -x -d 'table to export as csv: trials (default), reports, gangs, stays, resizes, nodes, charges, groups, predictions, plan, decisions, notes, trial_notes, experiments, jobs, gpu_map, importance or schedule'
complete -c espalier -n '__espalier_verb export' -l output -s o -r -F -d 'output file (default: standard output); of tensorboard a directory (default: DIR/tensorboard)'
complete -c espalier -n '__espalier_verb export' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb export' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb export' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a report -d 'write an HTML report of what the search found and used'
complete -c espalier -n '__espalier_verb report' -l output -s o -r -F -d 'output file (default: DIR/report.html; -: standard output)'
complete -c espalier -n '__espalier_verb report' -l log -s l -d 'start with logarithmic axes; the page offers both'
complete -c espalier -n '__espalier_verb report' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb report' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb report' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a serve -d 'show runs in a browser while they are running'
complete -c espalier -n '__espalier_verb serve' -l port -s p -x -d 'port to listen on (default: a free one)'
complete -c espalier -n '__espalier_verb serve' -l control -d 'let the page stop runs, and submit to pools and cancel in them (default: read-only)'
complete -c espalier -n '__espalier_verb serve' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb serve' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb serve' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a nodes -d 'list or release the machines that your runs hold'
complete -c espalier -n '__espalier_verb nodes' -l config -s c -r -F -d 'ask the cloud of this configuration file'
complete -c espalier -n '__espalier_verb nodes' -l release -r -F -d 'release all machines of RUN, a run directory or the name of a run as listed'
complete -c espalier -n '__espalier_verb nodes' -l force -d 'with --release: also if the directory of the run is not known here'
complete -c espalier -n '__espalier_verb nodes' -l set -s s -x -d 'give a secret of the cloud again, which a run directory does not store'
complete -c espalier -n '__espalier_verb nodes' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb nodes' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb nodes' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb nodes' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a drain -d 'move all trials away from a machine, and hold it out'
complete -c espalier -n '__espalier_verb drain' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb drain' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb drain' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a undrain -d 'let a machine that was drained have trials again'
complete -c espalier -n '__espalier_verb undrain' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb undrain' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb undrain' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a trial -d 'stop one trial of a running run, add one, or write a note on one'
complete -c espalier -n '__espalier_verb trial' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb trial' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb trial' -F

complete -c espalier -n '__espalier_verb' -a stop -d 'stop a running run cleanly, as Ctrl-C does'
complete -c espalier -n '__espalier_verb stop' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb stop' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb stop' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a submit -d 'add an experiment to a running pool'
complete -c espalier -n '__espalier_verb submit' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb submit' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb submit' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb submit' -F

complete -c espalier -n '__espalier_verb' -a cancel -d 'cancel an experiment or a plain job of a pool'
complete -c espalier -n '__espalier_verb cancel' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb cancel' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb cancel' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a queue -d 'show which experiments and jobs of a pool are running or waiting, and why'
complete -c espalier -n '__espalier_verb queue' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb queue' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb queue' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb queue' -a '(__fish_complete_directories)'

complete -c espalier -n '__espalier_verb' -a check -d 'validate a configuration without running it'
complete -c espalier -n '__espalier_verb check' -l output -s o -r -F -d 'also try trial.metrics on LOG, a file of the program\'s output'
complete -c espalier -n '__espalier_verb check' -l set -s s -x -a '(__espalier_settings)' -d 'override a value in FILE (repeatable)'
complete -c espalier -n '__espalier_verb check' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb check' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb check' -F

complete -c espalier -n '__espalier_verb' -a plugins -d 'list the installed plugins'
complete -c espalier -n '__espalier_verb plugins' -l json -s j -d 'print only JSON on standard output'
complete -c espalier -n '__espalier_verb plugins' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb plugins' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'

complete -c espalier -n '__espalier_verb' -a help -d 'show help for a command, plugin or configuration group'
complete -c espalier -n '__espalier_verb help' -l all -d 'also show experimental options'
complete -c espalier -n '__espalier_verb help' -l keyword -s k -x -d 'list every option and command whose help mentions WORD'
complete -c espalier -n '__espalier_verb help' -l markdown -d 'print Markdown'
complete -c espalier -n '__espalier_verb help' -l man -d 'print the source of a manual page'
complete -c espalier -n '__espalier_verb help' -l completion -x -a 'bash zsh fish' -d 'print a completion script: source <(espalier help --completion bash)'
complete -c espalier -n '__espalier_verb help' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb help' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb help' -a '(__espalier_topics)'

complete -c espalier -n '__espalier_verb' -a check-plugin -d 'test that a plugin loads and follows the rules of the ABI'
complete -c espalier -n '__espalier_verb check-plugin' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb check-plugin' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
complete -c espalier -n '__espalier_verb check-plugin' -F

complete -c espalier -n '__espalier_verb' -a version -d 'print the version of espalier'
complete -c espalier -n '__espalier_verb version' -l help -s h -d 'show this help'
complete -c espalier -n '__espalier_verb version' -l plugins -s P -x -a '(__fish_complete_directories)' -d 'search this directory for plugins first'
