"""The command line: tables, experiments of the paper, data sets, the playground."""

import argparse
import os
import sys
from collections.abc import Sequence

import ntkgp
from ntkgp.core import completion
from ntkgp.core.progress import printable
from ntkgp.data import commands as data_commands
from ntkgp.experiments import commands as experiment_commands
from ntkgp.experiments.commands import EXPECTED
from ntkgp.playground import command as playground_command
from ntkgp.tables import commands as table_commands


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors in the user's input are one line, not a traceback."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.command(arguments) or 0)
    except BrokenPipeError:  # whoever reads our output, such as head, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except EXPECTED as error:
        print(printable(f"ntkgp: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:  # another signal, for `ntkgp_command`
            raise
        print(f"ntkgp: {getattr(arguments, 'interrupted', 'interrupted.')}", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Of all commands."""
    whole = argparse.ArgumentParser(prog="ntkgp", description=ntkgp.__doc__)
    whole.add_argument("--version", action="version", version=f"ntkgp {ntkgp.__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    table_commands.add_to(commands)
    experiment_commands.add_to(commands)
    data_commands.add_to(commands)
    playground_command.add_to(commands)
    completion.add_to(commands, whole)
    return whole


if __name__ == "__main__":
    sys.exit(main())
