# bash completion for virgate. `virgate complete` prints the candidates, see cli/complete.c.
_virgate()
{
	local line current=${COMP_WORDS[COMP_CWORD]}
	local -a lines found
	mapfile -t lines < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[[ $current != '=' ]] || current=
	COMPREPLY=()
	for line in "${lines[@]}"; do
		found=()
		case $line in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t found < <(compgen -f -- "$current") ;;
		:commands)
			compopt -o filenames 2>/dev/null
			mapfile -t found < <(compgen -c -- "$current"; compgen -f -- "$current") ;;
		:arguments\ *)
			if declare -F _command_offset >/dev/null; then
				_command_offset $((${line#* } + 1))
				return
			fi
			compopt -o filenames 2>/dev/null
			mapfile -t found < <(compgen -f -- "$current") ;;
		*)
			found=("${line%%$'\t'*}") ;;
		esac
		COMPREPLY+=("${found[@]}")
	done
}
complete -F _virgate virgate
