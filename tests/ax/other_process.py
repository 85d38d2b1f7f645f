"""Another process on a campaign's database: it says how loading fails without the adapter, then takes its turns.

``python -m tests.ax.other_process PATH``; a turn begins when a line comes in, and ends with the trial in a line.
"""

import json
import sys
from pathlib import Path

from tests.ax.experiments import CAMPAIGNS, make_quiet

make_quiet()
campaign = CAMPAIGNS["Client"]("sqlite", Path(sys.argv[1]))
try:
    campaign.load()
except Exception as error:
    print(str(error).replace("\n", " "), flush=True)
import mkbo_plugins.ax  # noqa: E402, F401 - what failed without it

for _ in sys.stdin:
    campaign.load()
    print(json.dumps(campaign.trial()), flush=True)
