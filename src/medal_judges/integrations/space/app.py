"""The app of a Space: the page of the judge that the variable MEDAL_JUDGE names."""

import os

from medal_judges.integrations.gradio import make_app

if __name__ == "__main__":
    make_app(os.environ.get("MEDAL_JUDGE", "boxed")).launch()
