#compdef bully-agent

_bully-agent() {
    local program=${${(Q)words[1]}/#\~\//$HOME/} line word
    local -a answer plain open
    answer=("${(@f)$("$program" completion next -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case ${answer[1]} in
        :files | :directories)
            [[ $PREFIX == --*=* ]] && compset -P '*='
            if [[ ${answer[1]} == :files ]]; then _files; else _files -/; fi
            return
            ;;
        :command)
            # What follows the first -- is a command line of its own.
            local at=${words[(i)--]}
            words=("${(@)words[at+1,-1]}")
            (( CURRENT -= at ))
            _normal
            return
            ;;
    esac
    for line in $answer; do
        word=${line%%$'\t'*}
        line=${word//:/\\:}${${(M)line%$'\t'*}/#$'\t'/:}
        if [[ $word == *= ]]; then open+=("$line"); else plain+=("$line"); fi
    done
    local done=1
    (( $#plain )) && _describe -t words 'bully-agent' plain && done=0
    (( $#open )) && _describe -t words 'bully-agent' open -S '' && done=0
    return done
}

_bully-agent "$@"
