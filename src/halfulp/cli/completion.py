"""``halfulp completion``: a completion script for a shell, made of the parser and of the register of operators."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["add_to"]

_BASH = """\
_halfulp() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words files
  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
  else case "$command $before" in
{values}
    *) case $command in
{places}
       esac ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -n "$files" ]; then
    COMPREPLY+=($(compgen -f -- "$word"))
    type compopt >/dev/null 2>&1 && compopt -o filenames  # zsh has none, and needs none
  fi
}}
complete -F _halfulp halfulp
"""

_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u; }
autoload -Uz +X bashcompinit && bashcompinit
"""

_FISH = """\
complete -c halfulp -f
complete -c halfulp -n __fish_use_subcommand -a "{commands}"
{values}
{places}
"""


_FILES = ("FILE", "FOLDER", "MODEL", "PROPERTY", "SOURCE", "TARGET", "CERTIFICATE")
"""What the names of files and folders are called in the usage."""


class Place(NamedTuple):
    """What may stand somewhere on the command line: words, and names of files."""

    words: str
    files: bool


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description='Print a completion script: eval "$(halfulp completion bash)", the same with zsh, or for fish: '
        "halfulp completion fish | source.",
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"))
    command.set_defaults(run=run)


def _known() -> dict[tuple[str, str], Any]:
    """(command, argument) -> the words that it takes, where the parser does not say them."""
    from halfulp.cli.show import shown_operators
    from halfulp.conformance.cases import DTYPES
    from halfulp.conformance.subjects import SUBJECTS
    from halfulp.errors import CONSTRAINTS
    from halfulp.records import declarations

    return {
        ("check", "subjects"): SUBJECTS,
        ("check", "--op"): [declaration.name for declaration in declarations()],
        ("check", "--mode"): ("forward", "jvp", "vjp", "bounds"),
        ("check", "--dtype"): DTYPES,
        ("show", "operator"): shown_operators(),
        ("explain", "labels"): CONSTRAINTS,
    }


def _tables() -> tuple[dict[str, Place], dict[tuple[str, str], Place]]:
    """What each command takes, and what each of its options takes."""
    from halfulp.cli import parser

    known, places, values = _known(), {}, {}
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        words: list[str] = []
        files = False
        for action in command._actions:
            options = [option for option in action.option_strings if option.startswith("--")]
            for argument in options or [action.dest]:
                given = [*(known.get((name, argument)) or action.choices or ())]
                named = action.type is Path or any(word in str(action.metavar) for word in _FILES)
                if not options:
                    words, files = [*words, *given], files or named
                elif given or named:
                    values[name, argument] = Place(" ".join(given), named)
            words += options
        places[name] = Place(" ".join(words), files)
    return places, values


def run(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    places, values = _tables()
    if options.shell == "fish":
        seen = 'complete -c halfulp -n "__fish_seen_subcommand_from {}"'.format
        text = _FISH.format(
            commands=" ".join(places),
            values="\n".join(
                f'{seen(name)} -l {option[2:]} -r {"-F " * place.files}-a "{place.words}"'
                for (name, option), place in values.items()
            ),
            places="\n".join(f'{seen(name)} {"-F " * place.files}-a "{place.words}"' for name, place in places.items()),
        )
    else:
        text = _BASH.format(
            commands=" ".join(places),
            values="\n".join(f'    "{" ".join(key)}") {_assigned(place)} ;;' for key, place in values.items()),
            places="\n".join(f"         {name}) {_assigned(place)} ;;" for name, place in places.items()),
        )
    print((_ZSH if options.shell == "zsh" else "") + text, end="")
    return 0


def _assigned(place: Place) -> str:
    return f'words="{place.words}"' + ("; files=yes" if place.files else "")
