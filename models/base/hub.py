"""Downloads judges from the Hugging Face Hub and uploads them, with clear error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from medal_judges.config import PACKAGED, shipped_names
from medal_judges.errors import HubError, did_you_mean
from medal_judges.models.model_files import MODEL_FILES

# As the Hub has it: no double dash or dot, and neither at an end.
_ID = re.compile(r"(?!.*(?:--|\.\.))([A-Za-z0-9][\w.-]*/)?\w(?:[\w.-]*\w)?")
# The subfolders and files of a judge's folder. Nothing else is published or downloaded.
PARTS = ("adapter", "encoder", "members", "model", "tokenizer")
# Files of transformers and PEFT at the top of a judge's folder: model, adapter, tokenizer.
TOP_FILES = (
    "config.json",
    "adapter_config.json",
    "*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
    "chat_template.jinja",
)
_OWN_FILES = (
    "judge.json",
    "golden.json",
    "rubric.yaml",
    "prompt.yaml",
    *TOP_FILES,
    "README.md",
    "train_config.json",
    "agreement.json",
    "data.json",
    "trial.json",
    "align.json",
    "members/*/*.yaml",
    *(f"{part}/**/{kind}" for part in PARTS for kind in MODEL_FILES),
)
# The same for the Hub, where * matches / too, with those of a judge's members.
_AT_TOP = (*(pattern.replace("**/", "*") for pattern in _OWN_FILES),)
_PULLED = (*_AT_TOP, *(f"members/*/{pattern}" for pattern in _AT_TOP))


def download_judge(repo_id: str, revision: str | None = None) -> Path:
    """Downloads a judge from the Hub, or takes it from the cache, and returns its folder.

    Args:
        repo_id: The Hub id OWNER/NAME.
        revision: A branch, tag or commit. None is main.

    Raises:
        HubError: The download fails, or ``repo_id`` is not OWNER/NAME. Or OWNER is a folder in the
            working directory, because ``repo_id`` then looks like a mistyped path.
    """
    owner = repo_id.partition("/")[0]
    # A folder of this project is never the owner of a repository.
    if not is_hub_id(repo_id) or owner in ("configs", "runs") or Path(owner).is_dir():
        names = [*PACKAGED, *shipped_names("judges")]
        raise HubError(
            f"no judge {repo_id!r}. Give a saved judge's folder, a YAML file, the name of a "
            "shipped judge, or a Hub id OWNER/NAME",
            hint=f"{did_you_mean(repo_id, names)}Shipped judges: {', '.join(names)}",
        )
    with _wrap_errors(repo_id):
        from huggingface_hub import hf_hub_download

        # judge.json first, so that a repository that is not a judge costs one small file.
        settings = Path(hf_hub_download(repo_id, "judge.json", revision=revision))
        # The commit whose settings were read.
        return fetch_repo(repo_id, settings.parent.name, patterns=_PULLED)


def fetch_repo(
    repo_id: str, revision: str | None, *, patterns: Sequence[str] | None = None
) -> Path:
    """Downloads the Hub repository ``repo_id`` at ``revision`` and returns its folder.

    Args:
        revision: A branch, tag or commit. None is main.
        patterns: Patterns of the files to download, such as ``["*.json"]``. None is all files.

    Raises:
        HubError: The download fails.
    """
    from huggingface_hub import snapshot_download

    with _wrap_errors(repo_id):
        return Path(
            snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=patterns,  # type: ignore[arg-type]
            )
        )


def is_hub_id(name: str, *, owned: bool = True) -> bool:
    """Returns whether ``name`` has the form OWNER/NAME of the Hub and is not a path on
    this machine.

    Args:
        owned: Whether OWNER is required. If false, a name without OWNER is accepted too, such as
            ``gpt2``.
    """
    has_form = bool(_ID.fullmatch(name)) and ("/" in name or not owned)
    return has_form and not Path(name).exists()


def files_to_upload(folder: Path) -> list[Path]:
    """Returns the paths of the files in a judge's ``folder`` that are uploaded to the Hub. The
    folders of a hybrid's members (the judges that it combines) are searched too.

    A file whose name no saved judge uses, such as ``notes.md``, is left out.

    Raises:
        HubError: A file is reached through a symbolic link.
    """
    files = [path for pattern in _OWN_FILES for path in folder.glob(pattern)]
    members = [path.parent for path in folder.glob("members/*/judge.json")]
    for path in (*files, *members):
        # A link's target could be any file of this machine.
        if path.resolve() != folder.resolve() / path.relative_to(folder):
            raise HubError(
                f"{path} is a link: only files that stand in the folder itself are pushed",
                hint=f"Copy the judge without links. Type: cp -rL {quote(str(folder))} NEW",
            )
    return sorted({*filter(Path.is_file, files)}.union(*map(files_to_upload, members)))


def push_judge_folder(
    folder: Path, repo_id: str, *, private: bool = True, revision: str | None = None
) -> str:
    """Uploads the judge in ``folder`` to the Hub as one commit and returns the commit's URL.

    Weights and JSON files of an earlier judge in the repository are deleted.

    Args:
        repo_id: The Hub id OWNER/NAME. The repository is created if it does not exist.
        private: If true, a new repository is private, and an existing one must be private. If
            false, a new repository is public.
        revision: A tag to create for the commit, such as ``v1``. None creates none.

    Raises:
        HubError: The upload fails, the tag exists, or the repository is public but ``private`` is
            true.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with _wrap_errors(repo_id):
        repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and api.repo_info(repo).private is False:
            raise HubError(
                f"{repo} exists and is public: a private push would publish the judge",
                hint="Type another name, or add --public",
            )
        if revision and revision in {tag.name for tag in api.list_repo_refs(repo).tags}:
            raise HubError(
                f"{repo} has a tag {revision!r} already, and a tag must not move",
                hint="Type another --revision",
            )
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message=f"Judge {folder.name}",
            allow_patterns=[
                p.relative_to(folder).as_posix() for p in files_to_upload(folder)
            ],
            # Files of an earlier judge must not look like parts of this judge.
            delete_patterns=["*.safetensors", "*.json"],
        )
        if revision:
            api.create_tag(repo, tag=revision, revision=commit.oid)
    return str(commit.commit_url)


@contextmanager
def _wrap_errors(repo_id: str) -> Iterator[None]:
    """Turns every error of the ``with`` block into a HubError that names ``repo_id``."""
    try:
        yield
    except HubError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        hint = "Type hf auth login or set HF_TOKEN if it is private or gated, or give a folder"
        raise HubError(f"{repo_id}: {words[:500]}", hint=hint) from error
