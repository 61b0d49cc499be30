"""What a Space runs: the page of one judge, named by the variable MEDAL_JUDGE."""

import os

from medal_judges.integrations.gradio import make_app

if __name__ == "__main__":
    make_app(os.environ.get("MEDAL_JUDGE", "boxed")).launch()
