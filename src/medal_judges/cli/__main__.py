"""``python -m medal_judges.cli``: as ``python -m medal_judges``."""

from medal_judges.cli import main

if __name__ == "__main__":
    main()
