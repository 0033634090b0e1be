# Completion of espalier's command line for bash.  Made by `espalier help --completion`.
_espalier() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W 'init run resume plan simulate profile list status best explain export report nodes submit cancel queue curves allocate market check plugins help check-plugin version --help --version' -- "$cur"))
		return
	fi
	case $verb in
	init) words='--output --plugins --help' ;;
	run) words='--dir --set --quiet --json --plugins --help' ;;
	resume) words='--accept --quiet --json --plugins --help' ;;
	plan) words='--allocator --compare --frontier --gpus --set --json --plugins --help' ;;
	simulate) words='--seed --runs --faults --curves-from --dir --set --quiet --json --plugins --help' ;;
	profile) words='--output --iterations --time-limit --set --quiet --json --plugins --help' ;;
	list) words='--json --plugins --help' ;;
	status) words='--watch --quiet --json --plugins --help' ;;
	best) words='--top --json --plugins --help' ;;
	explain) words='--plugins --help' ;;
	export) words='--format --table --output --plugins --help' ;;
	report) words='--output --log --plugins --help' ;;
	nodes) words='--config --release --force --json --plugins --help' ;;
	submit) words='--set --plugins --help' ;;
	cancel) words='--plugins --help' ;;
	queue) words='--json --plugins --help' ;;
	curves) words='--extrapolate --at --metric --ceiling --seed --json --plugins --help' ;;
	allocate) words='--set --json --plugins --help' ;;
	market) words='--offer --zone --predictor --train-days --margin --seed --output --json --plugins --help' ;;
	check) words='--output --set --plugins --help' ;;
	plugins) words='--json --plugins --help' ;;
	help) words='--markdown --man --completion --plugins --help' ;;
	check-plugin) words='--plugins --help' ;;
	version) words='--plugins --help' ;;
	esac
	case $verb:$prev in
	help:help)
		words="$words config espalier init run resume plan simulate profile list status best explain export report nodes submit cancel queue curves allocate market check plugins help check-plugin version experiment trial space cloud store planning workload experiments $(espalier plugins 2>/dev/null | awk 'NF > 2 { print $1 "/" $2 }')" ;;
	export:--format|export:-f) words='csv json' ;;
	esac
	if [[ $cur == -* || $verb:$prev == help:help || $prev == --format || $prev == -f ]]; then
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
	else
		COMPREPLY=($(compgen -f -- "$cur"))
	fi
}
complete -o filenames -F _espalier espalier
