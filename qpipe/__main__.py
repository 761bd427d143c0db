"""``python -m qpipe``."""

from qpipe.cli import main

if __name__ == "__main__":
    main()
