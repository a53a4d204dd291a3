# fish completion for bully-agent

function __bully_agent_next
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l answer ($words[1] completion next -- $words[2..-1] $last 2>/dev/null)
    set -l flag (string match -r '^--[a-z-]+=' -- $last)
    set -l path (string replace -r '^--[a-z-]+=' '' -- $last)
    switch "$answer[1]"
        case :files
            printf "$flag%s\n" (__fish_complete_path $path)
        case :directories
            printf "$flag%s\n" (__fish_complete_directories $path)
        case :command
            # What follows the first -- is a command line of its own.
            set -l at (contains -i -- -- $words)
            set -l rest
            test $at -lt (count $words); and set rest (string escape -- $words[(math $at + 1)..-1])
            complete -C "$(string join -- ' ' $rest $last)"
        case '*'
            printf '%s\n' $answer
    end
end

complete -c bully-agent -f -a '(__bully_agent_next)'
