"""Small data sets that come with the package, one loader per file."""

from ntkgp.data.letters import Letters as Letters
from ntkgp.data.letters import load_letters as load_letters
