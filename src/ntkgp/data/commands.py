"""`ntkgp data list`, `get` and `check`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntkgp.core.files import cache_dir
from ntkgp.core.talk import Talk, add_json_option
from ntkgp.data.cache import Unreadable
from ntkgp.data.sets import SETS, cached, check, get
from ntkgp.data.stored import BuiltIn


def add_to(commands: Any) -> None:
    """Give a command line the command `data`."""
    data = commands.add_parser(
        "data",
        help="list, get and check the data sets",
        epilog="example: ntkgp data get mnist --from Downloads",
    )
    actions = data.add_subparsers(required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="which data sets there are, where, and how large")
    listing.set_defaults(command=_list)

    getting = actions.add_parser("get", help="put a data set into the cache directory")
    getting.add_argument("name", metavar="NAME", help="as in `ntkgp data list`")
    getting.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help="folder or file with the original public files; without it, they are downloaded",
    )
    getting.add_argument(
        "--as-is",
        action="store_true",
        help="take files that differ from the public ones, which are refused otherwise",
    )
    getting.set_defaults(command=_get)

    checking = actions.add_parser(
        "check", help="compare cached data sets with what is known of them"
    )
    checking.add_argument("names", nargs="*", metavar="NAME", help="default: all that are cached")
    checking.set_defaults(command=_check)
    for action in (listing, getting, checking):
        add_json_option(action)


def _list(arguments: argparse.Namespace) -> None:
    talk = Talk("data list", arguments.json)
    talk.say(f"cache directory: {cache_dir()}")
    width = max(map(len, SETS))
    sets: dict[str, Any] = {}
    for name, entry in SETS.items():
        path = None if isinstance(entry, BuiltIn) else cached(entry)
        sets[name] = {"there": True}
        if isinstance(entry, BuiltIn):
            state = entry.where
        elif path:
            size = path.stat().st_size
            sets[name] |= {"path": str(path), "bytes": size}
            state = f"{size / 1e6:.1f} MB, {path}"
        else:
            sets[name]["there"] = False
            source = "" if entry.downloads else " --from FOLDER"
            state = f"not there: ntkgp data get {name}{source}"
        talk.say(f"{name:{width}}  {state}")
    talk.record(cache_directory=str(cache_dir()), sets=sets)
    talk.finish()


def _get(arguments: argparse.Namespace) -> None:
    talk = Talk("data get", arguments.json)
    path = get(arguments.name, arguments.source, as_is=arguments.as_is, say=talk.say)
    size = path.stat().st_size
    talk.record(name=arguments.name, path=str(path), bytes=size)
    talk.say(f"{arguments.name}: {path}, {size / 1e6:.1f} MB")
    _finish_checked([] if arguments.as_is else [arguments.name], talk)


def _check(arguments: argparse.Namespace) -> None:
    talk = Talk("data check", arguments.json)
    names = arguments.names or _there()
    if not names:
        talk.say(f"nothing is in {cache_dir()}.")
    _finish_checked(names, talk)


def _finish_checked(names: Sequence[str], talk: Talk) -> None:
    """Tell how each set compares with what is known of it; then an error, if one differs."""
    sets: dict[str, Any] = {}
    for name in names:
        try:
            facts = check(name)
        except Unreadable as error:
            sets[name] = {"holds": False, "error": str(error)}
            talk.say(f"{name}: {error}")
            continue
        bad = [fact for fact in facts if not fact.holds]
        sets[name] = {"holds": not bad, "checks": len(facts), "differ": [str(fact) for fact in bad]}
        talk.say(f"{name}: {len(facts) - len(bad)} of {len(facts)} checks hold")
        for fact in bad:
            talk.say(f"  {fact}")
    talk.record(checked=sets)
    talk.finish()
    wrong = [name for name, found in sets.items() if not found["holds"]]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: not as the public set is known, and still in {cache_dir()}. If you did "
            "not change it on purpose, get it again from its original files."
        )


def _there() -> list[str]:
    """The stored sets whose files are in the cache directory."""
    return [n for n, entry in SETS.items() if not isinstance(entry, BuiltIn) and cached(entry)]
