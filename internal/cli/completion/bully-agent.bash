# bash completion for bully-agent                          -*- shell-script -*-

_bully_agent() {
    local i word answer reply last at=0 words=()
    COMPREPLY=()

    # bash takes words apart at = and :, which may stand in one of ours.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#words[@]})) && { [[ $word == [=:]* ]] || [[ ${words[-1]} == *[=:] ]]; }; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    last=${COMP_WORDS[COMP_CWORD]}
    [[ $last == [=:] ]] && last=
    local whole=${words[-1]}

    # What comes back is never evaluated: no compgen -W.
    mapfile -t answer < <("${COMP_WORDS[0]/#~\//"$HOME/"}" completion next -- "${words[@]}" 2>/dev/null)
    case ${answer[0]} in
        :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$last") ;;
        :directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$last") ;;
        :command)
            for ((i = 1; i < COMP_CWORD; i++)); do
                if [[ ${COMP_WORDS[i]} == -- ]]; then at=$((i + 1)); break; fi
            done
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            elif ((COMP_CWORD == at)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$last")
            else
                compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$last")
            fi
            ;;
        *)
            for reply in "${answer[@]}"; do
                reply=${reply%%$'\t'*}
                [[ $reply == *= ]] && compopt -o nospace
                COMPREPLY+=("${reply#"${whole%"$last"}"}")
            done
            ;;
    esac
}

complete -F _bully_agent bully-agent
