"""Downloads judges from the Hub and uploads them, with a clear message for each kind of error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from medal_judges.config import judge_names
from medal_judges.errors import HubError, NoSuchJudgeError, did_you_mean
from medal_judges.models.model_files import MODEL_FILES

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_LOG_IN = "hf auth login, or set HF_TOKEN"
_NO_TOKEN = "no token of the Hub is set"
# As the Hub has it: no double dash or dot, and neither at an end.
_ID = re.compile(r"(?!.*(?:--|\.\.))([A-Za-z0-9][\w.-]*/)?\w(?:[\w.-]*\w)?")
# Folders of this project, so never the owner of a repository.
_FOLDERS = {"configs", "judges", "runs"}
# The subfolders and files of a judge's folder. Nothing else is published or downloaded.
PARTS = ("adapter", "encoder", "members", "model", "tokenizer")
# Files of transformers and PEFT at the top of a judge's folder: model, adapter, tokenizer.
TOP_FILES = (
    *(
        "config.json",
        "adapter_config.json",
        "*.safetensors",
        "model.safetensors.index.json",
    ),
    *(
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ),
    *("vocab.txt", "vocab.json", "merges.txt", "*.model", "chat_template.jinja"),
)
_OWN_FILES = (
    *(
        "judge.json",
        "golden.json",
        "rubric.yaml",
        "prompt.yaml",
        *TOP_FILES,
    ),
    *(
        "README.md",
        "train_config.json",
        "validation.json",
        "agreement.json",
        "data.json",
    ),
    *("trial.json", "align.json", "members/*/*.yaml"),
    *(f"{part}/**/{kind}" for part in PARTS for kind in MODEL_FILES),
)
# The same for the Hub, where * matches / too, with those of a judge's members.
_AT_TOP = (*(pattern.replace("**/", "*") for pattern in _OWN_FILES),)
_PULLED = (*_AT_TOP, *(f"members/*/{pattern}" for pattern in _AT_TOP))


def pull(repo_id: str, revision: str | None = None) -> Path:
    """Downloads a judge from the Hub at ``revision`` (branch, tag or commit; None: main), and
    returns its folder.

    Downloads judge.json first, so that a repository that is not a judge costs one small file.
    Without a network the judge comes from the cache. Raises HubError; for a name that is not
    OWNER/NAME without a request to the Hub.
    """
    owner = repo_id.partition("/")[0]
    if not is_hub_id(repo_id) or Path(owner).is_dir() or owner in _FOLDERS:
        if "/" in repo_id or "\\" in repo_id or repo_id.startswith((".", "~")):
            raise NoSuchJudgeError(
                f"no folder and no file {repo_id}, nor is it a hub id",
                hint="give the folder of a saved judge or a YAML file; a judge of the Hub is "
                "OWNER/NAME (if there is no folder OWNER)",
            )
        names = judge_names()
        raise NoSuchJudgeError(
            f"no judge {repo_id!r}: no folder here has that name, and no shipped judge",
            hint=f"{did_you_mean(repo_id, names)}shipped (medal judges describes them): "
            f"{', '.join(names)}; a hub id is OWNER/NAME",
        )
    reason = "it has no judge.json"
    with _explained(repo_id, revision):
        settings = _hub_json(repo_id, "judge.json", revision)
        if settings is not None:
            path, content = settings
            if "family" in content:
                # The commit whose settings were read.
                return download(repo_id, path.parent.name, patterns=_PULLED)
            reason = "its judge.json names no family"
        elif (model := _hub_json(repo_id, "config.json", revision)) is not None:
            reason = f"it is a plain model ({model[1].get('model_type', 'of no known type')})"
    raise HubError(
        f"{repo_id} is on the Hub and is not a judge: {reason}",
        hint="a plain model becomes a judge by training (medal train) or behind a YAML judge "
        "(configs/judges/, llm=...)",
    )


def _hub_json(
    repo_id: str, name: str, revision: str | None
) -> tuple[Path, dict[str, Any]] | None:
    """Downloads a JSON file of a repository: its path and content, which is empty if it is not a
    JSON mapping. None if the repository has no such file."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = Path(hf_hub_download(repo_id, name, revision=revision))
        content = json.loads(path.read_text(encoding="utf-8"))
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = {}
    return path, content if isinstance(content, dict) else {}


def download(
    repo_id: str, revision: str | None, *, patterns: Sequence[str] | None = None
) -> Path:
    """Downloads any Hub repository, or its files that match ``patterns``, and returns the folder.
    Raises HubError."""
    from huggingface_hub import snapshot_download

    with _explained(repo_id, revision):
        allowed = list(patterns) if patterns else None
        return Path(
            snapshot_download(repo_id, revision=revision, allow_patterns=allowed)
        )


def is_hub_id(name: str, *, owned: bool = True) -> bool:
    """Returns whether ``name`` has the form OWNER/NAME, or NAME if not ``owned`` (old models of the
    Hub), and is no file or folder here."""
    has_form = bool(_ID.fullmatch(name)) and ("/" in name or not owned)
    return has_form and not Path(name).exists()


def judge_files(folder: Path) -> list[Path]:
    """Returns the files of a judge to push: only files that this package writes. Raises HubError
    for a link: what it points to may be anything."""
    files = [path for pattern in _OWN_FILES for path in folder.glob(pattern)]
    members = [
        path for path in folder.glob("members/*") if (path / "judge.json").is_file()
    ]
    for path in (*files, *members):
        for part in (path, *path.parents):
            if part == folder:
                break
            if part.is_symlink():
                raise HubError(
                    f"{part} is a link: only files that stand in the folder itself are pushed",
                    hint=f"copy the judge without links: cp -rL {quote(str(folder))} NEW",
                )
    return sorted({*filter(Path.is_file, files)}.union(*map(judge_files, members)))


def require_writable(repo_id: str) -> None:
    """Raises HubError if a push to ``repo_id`` cannot work: no valid name, no token, no network."""
    from huggingface_hub import constants, get_session, get_token
    from huggingface_hub.utils._validators import validate_repo_id

    with _explained(repo_id, None, writing=True):
        validate_repo_id(repo_id)
        if get_token() is None:
            raise HubError(f"{repo_id}: {_NO_TOKEN}", hint=_LOG_IN)
        get_session().head(constants.ENDPOINT, timeout=5)


def push_folder(
    folder: Path,
    repo_id: str,
    *,
    private: bool = True,
    revision: str | None = None,
    message: str | None = None,
) -> str:
    """Uploads the judge in ``folder`` as one commit, tags the commit ``revision``, and returns its
    URL. Creates the repository if there is none.

    Raises HubError, also for a tag that exists, and for a private push to a public repository.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with _explained(repo_id, None, writing=True):
        repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and api.repo_info(repo).private is False:
            raise HubError(
                f"{repo} exists and is public: a private push would publish the judge",
                hint="push to another name, or add --public",
            )
        if revision and revision in {tag.name for tag in api.list_repo_refs(repo).tags}:
            raise HubError(
                f"{repo} has a tag {revision!r} already, and a tag must not move",
                hint="give another --revision",
            )
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message=message or f"Judge {folder.name}",
            allow_patterns=[
                p.relative_to(folder).as_posix() for p in judge_files(folder)
            ],
            # Files of an earlier judge must not look like parts of this judge.
            delete_patterns=["*.safetensors", "*.json"],
        )
        if revision:
            api.create_tag(repo, tag=revision, revision=commit.oid)
    return str(commit.commit_url)


@contextmanager
def _explained(
    repo_id: str, revision: str | None, *, writing: bool = False
) -> Iterator[None]:
    """Raises errors of huggingface_hub and of the disk as HubError."""
    try:
        yield
    except Exception as error:
        explained = _explanation(error, repo_id, revision, writing)
        if explained is None:
            raise
        raise HubError(explained[0], hint=explained[1]) from error


def _explanation(
    error: Exception, repo_id: str, revision: str | None, writing: bool
) -> tuple[str, str | None] | None:
    """Returns (message, hint); None for an error that is not about the Hub or the disk."""
    from huggingface_hub import errors, get_token

    cause = error.__cause__
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(
        cause, errors.HfHubHTTPError
    ):
        error = cause  # the Hub was reached, and answered with an error
    if isinstance(error, errors.HFValidationError):
        hint = "give a folder of a saved judge, a hub id ORG/NAME, or a file of configs/judges/"
        return f"no folder {repo_id} here, nor is it a hub id", hint
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"{repo_id} has no revision {revision!r}",
            "its page lists branches and tags",
        )
    if isinstance(error, errors.LocalTokenNotFoundError):
        return f"{repo_id}: {_NO_TOKEN}", _LOG_IN
    if isinstance(error, errors.HfHubHTTPError):
        return _refusal(error, repo_id, writing, no_token=get_token() is None)
    # By name, because the Hub's client uses httpx or httpx2, depending on its version.
    is_transport = "TransportError" in {base.__name__ for base in type(error).__mro__}
    offline = errors.LocalEntryNotFoundError | ConnectionError | TimeoutError
    if is_transport or isinstance(error, offline):
        if writing:
            return (
                f"cannot push {repo_id}: the Hub is out of reach",
                "is there a network?",
            )
        return (
            f"the Hub is out of reach, and {repo_id} at revision {revision or 'main'!r} is not "
            "cached, or only in part",
            "give a local folder or a cached revision (hf cache ls), or try again with a network",
        )
    if isinstance(error, OSError):
        hint = "make room (hf cache prune), or set HF_HOME to a folder on another disk"
        return f"no room to store {repo_id}: {error}", hint
    return None


def _refusal(
    error: HfHubHTTPError, repo_id: str, writing: bool, *, no_token: bool
) -> tuple[str, str | None]:
    """Returns (message, hint) for an answer of the Hub."""
    from huggingface_hub import errors

    status = error.response.status_code
    is_unknown = isinstance(error, errors.RepositoryNotFoundError)
    if isinstance(error, errors.GatedRepoError):
        who = _NO_TOKEN if no_token else "your account has no access"
        return (
            f"{repo_id} is gated, and {who}",
            f"request access on its page, then: {_LOG_IN}",
        )
    if is_unknown and no_token:
        message = f"no folder and no public Hub repository {repo_id}, and {_NO_TOKEN}"
        return message, f"for a private one: {_LOG_IN}"
    if status == 401:
        return (
            f"{repo_id}: {_NO_TOKEN if no_token else 'the Hub rejects your token'}",
            _LOG_IN,
        )
    if status == 403 and writing:
        hint = "make one with write permission for it: https://huggingface.co/settings/tokens"
        return f"{repo_id}: your token may not write there", hint
    if is_unknown and writing:
        hint = "does the organisation exist, and may your token write to it?"
        return f"the Hub has no user or organisation for {repo_id}", hint
    if is_unknown:
        hint = "only its owner's token sees a private one"
        return f"no folder and no Hub repository {repo_id}", hint
    return f"the Hub refused {repo_id}: {str(error).strip().splitlines()[0]}", None
