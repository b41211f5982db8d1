#compdef virgate
# zsh completion for virgate. `virgate complete` prints the candidates, see cli/complete.c.
_virgate()
{
	local line
	local -a lines described
	lines=("${(@f)$("$words[1]" complete -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
	for line in "${lines[@]}"; do
		case $line in
		:files)
			compset -P '--*='
			_files ;;
		:commands)
			_alternative 'commands:command:_command_names -e' 'files:file:_files' ;;
		':arguments '*)
			shift $((${line#* } + 1)) words
			((CURRENT -= ${line#* } + 1))
			_normal ;;
		*$'\t'*)
			described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
		?*)
			described+=("${line//:/\\:}") ;;
		esac
	done
	(($#described)) && _describe -t words virgate described
}
compdef _virgate virgate
# In a file of $fpath this is the body of the function at its first call.
[[ $funcstack[1] != _virgate ]] || _virgate "$@"
