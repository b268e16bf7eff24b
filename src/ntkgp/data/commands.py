"""`ntkgp data list`, `get` and `check`: each a function from arguments to the lines it prints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ntkgp.core.files import cache_dir
from ntkgp.core.progress import printable
from ntkgp.data.cache import Unreadable
from ntkgp.data.sets import SETS, cached, check, get
from ntkgp.data.stored import BuiltIn


def add_to(commands: Any) -> None:
    """Give a command line the command `data`; `arguments.command(arguments)` runs and prints it."""
    data = commands.add_parser(
        "data",
        help="list, get and check the data sets",
        epilog="example: ntkgp data get mnist --from Downloads",
    )
    actions = data.add_subparsers(required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="which data sets there are, where, and how large")
    listing.set_defaults(command=lambda _: show(list_sets()))

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
    getting.set_defaults(
        command=lambda options: show(get_set(options.name, options.source, options.as_is))
    )

    checking = actions.add_parser(
        "check", help="compare cached data sets with what is known of them"
    )
    checking.add_argument("names", nargs="*", metavar="NAME", help="default: all that are cached")
    checking.set_defaults(command=lambda options: show(check_sets(options.names)))


def show(lines: Iterator[str]) -> None:
    for line in lines:
        print(printable(line), flush=True)


def list_sets() -> Iterator[str]:
    yield f"cache directory: {cache_dir()}"
    width = max(map(len, SETS))
    for name, entry in SETS.items():
        if isinstance(entry, BuiltIn):
            state = entry.where
        elif path := cached(entry):
            state = f"{path.stat().st_size / 1e6:.1f} MB, {path}"
        else:
            source = "" if entry.downloads else " --from FOLDER"
            state = f"not there: ntkgp data get {name}{source}"
        yield f"{name:{width}}  {state}"


def get_set(name: str, source: Path | None, as_is: bool = False) -> Iterator[str]:
    path = get(name, source, as_is=as_is)
    yield f"{name}: {path}, {path.stat().st_size / 1e6:.1f} MB"
    if not as_is:
        yield from check_sets([name])


def check_sets(names: list[str]) -> Iterator[str]:
    """One line for each set; then an error, if one differs from what is known of it."""
    wrong = []
    if not names and not there():
        yield f"nothing is in {cache_dir()}."
    for name in names or there():
        try:
            facts = check(name)
        except Unreadable as error:
            wrong.append(name)
            yield f"{name}: {error}"
            continue
        bad = [fact for fact in facts if not fact.holds]
        wrong += [name] if bad else []
        yield f"{name}: {len(facts) - len(bad)} of {len(facts)} checks hold"
        for fact in bad:
            yield f"  {fact}"
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: not as the public set is known, and still in {cache_dir()}. If you did "
            "not change it on purpose, get it again from its original files."
        )


def there() -> list[str]:
    """The stored sets whose files are in the cache directory."""
    return [n for n, entry in SETS.items() if not isinstance(entry, BuiltIn) and cached(entry)]
