"""Data sets: one loader per file, one table of all of them in `ntkgp.data.sets`."""

from ntkgp.core.files import cache_dir as cache_dir
from ntkgp.data.dataset import Dataset as Dataset
from ntkgp.data.dataset import Fold as Fold
from ntkgp.data.dataset import Split as Split
from ntkgp.data.flights import complete_rows as complete_rows
from ntkgp.data.letters import Letters as Letters
from ntkgp.data.letters import load_letters as load_letters
from ntkgp.data.sets import SETS as SETS
from ntkgp.data.sets import check as check
from ntkgp.data.sets import get as get
from ntkgp.data.sets import load as load
from ntkgp.data.toy import make_toy as make_toy
