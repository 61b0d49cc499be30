"""What Windows would refuse, told on Linux: ``python tests/windows_rules.py [--files] COMMAND``.

Runs ``medal COMMAND`` in this process without the modules and names that only POSIX has, and
with each rename, replacement and removal looked at: Windows does none of them to a file that is
open or mapped into memory, and takes no name with one of its characters. Prints what broke a rule.

With ``--files`` the names stay: torch and transformers take those of the system they run on. It
knows this process alone, and only what Python itself opens or what /proc shows of the rest.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path, PureWindowsPath

POSIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
POSIX_NAMES = {
    os: ("fork", "forkpty", "geteuid", "getuid", "getloadavg", "killpg", "mkfifo", "nice"),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "alarm", "pause"),
}
_REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[ .]$')
broken: set[str] = set()


def without_posix() -> None:
    """From here on the modules and names are not to be had (what was imported before keeps them:
    Python's own library, which has its ways on Windows)."""
    import multiprocessing
    import subprocess
    import tempfile

    assert multiprocessing and subprocess and tempfile
    for module in POSIX_MODULES:
        sys.modules[module] = None  # type: ignore[assignment]
    for place, names in POSIX_NAMES.items():
        for name in names:
            if hasattr(place, name):
                delattr(place, name)


def watch() -> None:
    """Look at every file that is made, renamed or removed from here on."""
    sys.addaudithook(_look)


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if event == "os.rename":
        for path in arguments[:2]:
            _require_closed(event, path)
        _require_name(arguments[1])
    elif event in ("os.remove", "os.rmdir", "shutil.rmtree"):
        _require_closed(event, arguments[0])
    elif event == "os.mkdir" or (event == "open" and int(str(arguments[2] or 0)) & os.O_CREAT):
        _require_name(arguments[0])


def _require_closed(event: str, path: object) -> None:
    place = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
    # A lock is removed while it is held; where that is refused it stays, and is taken over.
    if place.endswith(".lock") or not os.path.exists(place):
        return
    for held in _held():
        if held == place or held.startswith(f"{place}/"):
            broken.add(f"{event} of {place} while {held} is open")


def _held() -> set[str]:
    """Every file that this process has open or mapped."""
    held = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the descriptor of this very list
            continue
    maps = Path("/proc/self/maps").read_text().splitlines()
    return held | {line.split(maxsplit=5)[5] for line in maps if line.count(" /")}


def _require_name(path: object) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    place = Path(os.fsdecode(path)).absolute()
    if place.is_relative_to(Path.cwd()):
        for part in place.relative_to(Path.cwd()).parts:
            if _REFUSED.search(part) or PureWindowsPath(part).is_reserved():
                broken.add(f"the name {part!r} in {place}")


def main() -> None:
    if sys.argv[1] == "--files":
        del sys.argv[1]
    else:
        without_posix()
    watch()
    from medal_judges.cli import main as medal

    code: object = 0
    try:
        medal()
    except SystemExit as ended:
        code = ended.code
    for place in sorted(Path.cwd().rglob("*")):  # what libraries wrote past Python
        _require_name(str(place))
    print(*sorted(broken), sep="\n", file=sys.stderr)
    sys.stderr.flush()
    os._exit(1 if broken or code not in (0, None) else 0)


if __name__ == "__main__":
    main()
