"""``accelerate launch -m medal_judges.inference CHATS --out FILE ...``: the options of ``medal
score``; the processes share the work."""

from __future__ import annotations

import sys

from medal_judges.cli import main
from medal_judges.inference.parallel.launched import meet

if __name__ == "__main__" and meet():
    sys.argv.insert(1, "score")
    main()
