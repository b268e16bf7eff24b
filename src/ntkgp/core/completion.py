"""`ntkgp completion SHELL`: a script by which a shell completes our commands, made from their parser."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

SHELLS = ("bash", "zsh", "fish")


def add_to(commands: Any, whole: argparse.ArgumentParser) -> None:
    """Give a command line the command `completion`, for itself."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script that completes commands in a shell.",
        epilog="examples:\n"
        "  source <(ntkgp completion bash)          # in ~/.bashrc\n"
        "  source <(ntkgp completion zsh)           # in ~/.zshrc, after compinit\n"
        "  ntkgp completion fish > ~/.config/fish/completions/ntkgp.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(command=lambda options: print(script(whole, options.shell), end=""))


def script(whole: argparse.ArgumentParser, shell: str) -> str:
    """Words after `ntkgp` and each command; elsewhere files.

    >>> parser = argparse.ArgumentParser(prog="tool")
    >>> _ = parser.add_argument("--loud", action="store_true", help="say more")
    >>> print(script(parser, "fish"), end="")
    complete -c tool -n "test (count (commandline -opc)) -eq 1" -l help -d "show this help message and exit"
    complete -c tool -n "test (count (commandline -opc)) -eq 1" -l loud -d "say more"
    """
    makers: dict[str, Callable[[argparse.ArgumentParser], str]] = {
        "bash": _bash,
        "zsh": _zsh,
        "fish": _fish,
    }
    return makers[shell](whole)


def _levels(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Each parser, and the words that lead to it."""
    yield path, parser
    for name, below in _below(parser).items():
        yield from _levels(below, (*path, name))


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _is_branch(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Commands, choices of positional arguments and long options that may follow."""
    words = list(_below(parser))
    for action in parser._actions:
        if action.option_strings:
            words += [word for word in action.option_strings if word.startswith("--")]
        elif action.choices and not _is_branch(action):
            words += [str(choice) for choice in action.choices]
    return words


def _values(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The values of long options that have a choice."""
    return {
        word: [str(choice) for choice in action.choices]
        for action in parser._actions
        if action.choices and not _is_branch(action)
        for word in action.option_strings
        if word.startswith("--")
    }


def _bash(whole: argparse.ArgumentParser) -> str:
    name = whole.prog
    cases = []
    for path, parser in reversed(list(_levels(whole))):
        inner = "".join(
            f'      {word}) COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return ;;\n'
            for word, values in _values(parser).items()
        )
        before = f'    case "$previous" in\n{inner}    esac\n' if inner else ""
        cases.append(
            f'  "{" ".join((name, *path))}"*)\n{before}'
            f'    COMPREPLY=($(compgen -W "{" ".join(_options(parser))}" -- "$word")) ;;\n'
        )
    return (
        f"_{name}() {{\n"
        '  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"\n'
        '  local line="${COMP_WORDS[*]:0:COMP_CWORD}"\n'
        f'  line="{name}${{line#"${{COMP_WORDS[0]}}"}}"\n'
        '  case "$line" in\n' + "".join(cases) + "  esac\n}\n"
        f"complete -o default -o bashdefault -F _{name} {name}\n"
    )


def _zsh(whole: argparse.ArgumentParser) -> str:
    """Zsh understands completions written for bash."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(whole)


def _fish(whole: argparse.ArgumentParser) -> str:
    lines = []
    for path, parser in _levels(whole):
        if path:
            when = f"__fish_seen_subcommand_from {path[-1]}"
        else:
            when = "test (count (commandline -opc)) -eq 1"
        start = f'complete -c {whole.prog} -n "{when}"'
        for command in _below(parser):
            lines.append(f"{start} -f -a {command}")
        for action in parser._actions:
            for word in action.option_strings:
                if word.startswith("--"):
                    values = (
                        f' -x -a "{" ".join(map(str, action.choices))}"' if action.choices else ""
                    )
                    lines.append(f'{start} -l {word[2:]}{values} -d "{_told(action)}"')
    return "\n".join(lines) + "\n"


def _told(action: argparse.Action) -> str:
    words = (action.help or "").replace("%%", "%")
    return " ".join(words.split()).replace('"', "'").replace("$", "").replace("`", "'")
