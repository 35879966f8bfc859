"""``halfulp completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_to"]


_BASH = """\
_halfulp() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words files
  case $before in
    --op) words="{operators}" ;;
    --mode) words="forward jvp vjp bounds" ;;
    --dtype) words="{dtypes}" ;;
    {bash_files}) files=yes ;;
    *) if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
       else case $command in
         check) words="{subjects} {check}" ;;
         show) words="{shown} {show}" ;;
         explain) words="{labels}" ;;
         verify) words="{verify}"; files=yes ;;
         pyramid) words="{pyramid}"; files=yes ;;
         completion) words="bash zsh fish" ;;
       esac; fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -n "$files" ]; then
    COMPREPLY+=($(compgen -f -- "$word"))
    type compopt >/dev/null 2>&1 && compopt -o filenames  # zsh has none, and needs none
  fi
}}
complete -F _halfulp halfulp
"""

_ZSH = """\
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -u; }}
autoload -Uz +X bashcompinit && bashcompinit
"""

_FISH = """\
complete -c halfulp -f
complete -c halfulp -n __fish_use_subcommand -a "{commands}"
complete -c halfulp -n "__fish_seen_subcommand_from check" -a "{subjects} {check}"
complete -c halfulp -n "__fish_seen_subcommand_from check" -l op -x -a "{operators}"
complete -c halfulp -n "__fish_seen_subcommand_from check" -l mode -x -a "forward jvp vjp bounds"
complete -c halfulp -n "__fish_seen_subcommand_from check" -l dtype -x -a "{dtypes}"
{fish_files}
complete -c halfulp -n "__fish_seen_subcommand_from show" -a "{shown} {show}"
complete -c halfulp -n "__fish_seen_subcommand_from explain" -a "{labels}"
complete -c halfulp -n "__fish_seen_subcommand_from verify" -F -a "{verify}"
complete -c halfulp -n "__fish_seen_subcommand_from pyramid" -F -a "{pyramid}"
complete -c halfulp -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"
"""

_FILES = ("json", "junit", "report", "markdown", "journal", "scripts", "compare", "output")
"""Options that take the name of a file or folder."""


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


def _flags(name: str) -> str:
    """The long options of a command, from its own parser."""
    from halfulp.cli import parser

    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    command: argparse.ArgumentParser = commands.choices[name]
    return " ".join(option for action in command._actions for option in action.option_strings if option[:2] == "--")


def run(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from halfulp.cli.show import shown_operators
    from halfulp.conformance.cases import DTYPES
    from halfulp.conformance.subjects import SUBJECTS
    from halfulp.errors import CONSTRAINTS
    from halfulp.records import declarations

    template = _FISH if options.shell == "fish" else _BASH
    text = template.format(
        commands="check show explain verify pyramid completion",
        subjects=" ".join(SUBJECTS),
        operators=" ".join(declaration.name for declaration in declarations()),
        shown=" ".join(shown_operators()),
        dtypes=" ".join(DTYPES),
        check=_flags("check"),
        show=_flags("show"),
        verify=_flags("verify"),
        pyramid=_flags("pyramid"),
        labels=" ".join(CONSTRAINTS),
        bash_files="|".join(f"--{name}" for name in _FILES),
        fish_files="\n".join(f"complete -c halfulp -l {name} -r -F" for name in _FILES),
    )
    head = _ZSH.format() if options.shell == "zsh" else ""
    print(head + text, end="")
    return 0
