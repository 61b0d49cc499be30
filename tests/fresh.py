"""Python code in processes without medal_judges, for tests that a saved judge is what plain
libraries load. They are forked from one process that has imported these libraries, so that they
begin at once."""

import atexit
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

_PARENT = """
import json, os, sys, traceback
import peft, sentence_transformers, torch, transformers
from transformers import (
    AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, BertModel, LlamaModel
)
torch.set_num_threads(1)  # a pool of threads does not survive a fork
for line in sys.stdin:
    request = json.loads(line)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            for stream, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT), stream)
            os.chdir(request["folder"])
            sys.argv = ["-c", *request["words"]]
            exec(compile(request["code"], "code", "exec"), {"__name__": "__main__"})
            assert not any(name.startswith("medal_judges") for name in sys.modules)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@cache
def _parent() -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _PARENT]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    return process


def run_fresh(code: str, *words: object, folder: Path) -> CompletedProcess[str]:
    """Runs ``code`` with ``words`` in sys.argv, in ``folder``."""
    process = _parent()
    assert process.stdin is not None and process.stdout is not None
    with TemporaryDirectory() as streams:
        out, err = Path(streams) / "out", Path(streams) / "err"
        request = {
            "code": code,
            "words": [*map(str, words)],
            "folder": str(folder.resolve()),
        }
        request |= {"out": str(out), "err": str(err)}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return CompletedProcess([code], status, out.read_text(), err.read_text())
