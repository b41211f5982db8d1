# fish completion for virgate. `virgate complete` prints the candidates, see cli/complete.c.
function __virgate_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
		switch $line
			case ':files'
				set -l option (string match -r -- '^--[^=]*=' "$current")
				for file in (complete -C"'' "(string escape -- (string replace -r -- '^--[^=]*=' '' "$current")))
					echo -- "$option$file"
				end
			case ':commands'
				complete -C(string escape -- "$current")
			case ':arguments *'
				set -l first (math (string split -f 2 ' ' $line) + 2)
				complete -C(string join ' ' -- (string escape -- $words[$first..-1]) "$current")
			case '*'
				echo -- $line
		end
	end
end
complete -c virgate -f -a '(__virgate_complete)'
