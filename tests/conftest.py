"""Types are checked at run time, shapes included, and only here."""

from jaxtyping import install_import_hook

install_import_hook("ntkgp", "beartype.beartype")
