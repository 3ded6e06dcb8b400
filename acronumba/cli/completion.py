"""`acronumba completion`: a script with which a shell completes commands, options, files, models and error codes.

In: the parser of the command line. Out: the script, for bash, zsh (which reads that of bash) or fish. Nothing of it
starts Python: models are the functions below a line `@model` of the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

SHELLS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}
MODELS = r"""sed -n '/^@.*model/,/^def /s/^def \([A-Za-z_0-9]*\).*/\1/p'"""  # of the file that follows

BASH = """\
_acronumba() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" file="" words="" values=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$cur"))
        return
    fi
    case "$cur" in
        *.py:*) file="${{cur%%:*}}" ;;                              # zsh: one word
        :) file="${{COMP_WORDS[COMP_CWORD-1]}}"; cur="" ;;          # bash: the colon ends a word
        *) [ "${{COMP_WORDS[COMP_CWORD-1]}}" = : ] && file="${{COMP_WORDS[COMP_CWORD-2]}}" ;;
    esac
    if [ -f "$file" ]; then
        words="$({models} "$file")"
        case "$cur" in *.py:*) words="$(printf '%s\\n' $words | sed "s|^|$file:|")" ;; esac
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case "$command" in
{cases}
    esac
    case "$cur" in
        -*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
        *) if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$cur"))
           else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); fi ;;
    esac
}}
complete -F _acronumba acronumba
"""

FISH = f"""\
function __acronumba_models
    set -l file (string replace -r ':.*' '' -- (commandline -ct))
    test -f "$file"; and {MODELS} "$file" | string replace -r '^' "$file:"
end
complete -c acronumba -f -n "string match -q '*.py:*' -- (commandline -ct)" -a '(__acronumba_models)'
"""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for a shell."""
    (commands,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {name: command.description or "" for name, command in commands.items()}
    head = f"# In {SHELLS[shell]}: " + ("acronumba completion fish | source" if shell == "fish" else
                                        f'eval "$(acronumba completion {shell})"')  # fmt: skip
    if shell == "fish":
        return "\n".join([head, *_fish(commands, helps), FISH])
    cases = "\n".join(
        f'        {name}) words="{" ".join(_options(command))}" values="{" ".join(_choices(name, command))}" ;;'
        for name, command in commands.items()
    )
    text = BASH.format(commands=" ".join(commands), models=MODELS, cases=cases)
    before = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return f"{head}\n{before}{text}"


def _options(command: argparse.ArgumentParser) -> list[str]:
    return [name for action in command._actions for name in action.option_strings]


def _choices(name: str, command: argparse.ArgumentParser) -> list[str]:
    """Return the values of a command's argument, if they are known: no file is completed then."""
    from acronumba.errors.codes import CODES

    known = [str(c) for action in command._actions if not action.option_strings for c in action.choices or ()]
    return list(CODES) if name == "error" else known


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish(commands: dict[str, argparse.ArgumentParser], helps: dict[str, str]) -> Iterator[str]:
    for name, command in commands.items():
        yield f"complete -c acronumba -f -n __fish_use_subcommand -a {name} -d {_quoted(helps[name])}"
        of = f"complete -c acronumba -n '__fish_seen_subcommand_from {name}'"
        if choices := _choices(name, command):
            yield f"{of} -f -a '{' '.join(choices)}'"
        for action in command._actions:
            flags = " ".join(f"-{'l' if o.startswith('--') else 's'} {o.lstrip('-')}" for o in action.option_strings)
            if flags:
                yield f"{of} {flags} -d {_quoted((action.help or '').replace('%%', '%'))}"
