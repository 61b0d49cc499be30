"""Nothing secret is pushed; what was found is named by place and never shown."""

from pathlib import Path

import pytest

from medal_judges.errors import HubError
from medal_judges.models.base.folder_checks import find_secrets, require_no_secrets

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "a Hugging Face token": "hf_" + "a1B2" * 8,
    "an API key (sk-...)": "sk-" + "proj-" + "a1B2" * 8,
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a password in an address": "https" + "://me:word@host/",
    "a path of a home folder": "/home/" + "ada/judges",
    "a path of this Python": "/opt/lib/site" + "-packages/x",
}


@pytest.mark.parametrize("what", SECRETS)
def test_each_kind_is_found_by_file_and_line(tmp_path: Path, what: str) -> None:
    path = tmp_path / "deep" / "config.json"
    path.parent.mkdir()
    path.write_text('{\n "a": 1,\n "b": "' + SECRETS[what] + '"\n}')
    (found,) = find_secrets(tmp_path, [path])
    assert (found.file, found.line, found.what) == ("deep/config.json", 3, what)
    with pytest.raises(HubError, match=r"deep/config\.json, line 3") as caught:
        require_no_secrets(tmp_path, [path])
    assert SECRETS[what] not in str(caught.value)


def test_harmless_text_and_vocabularies_pass(tmp_path: Path) -> None:
    fine = tmp_path / "README.md"
    fine.write_text("task-specific hf_hub, sk-learn, /homework/, https://huggingface.co/a:b\n")
    words = tmp_path / "vocab.txt"
    words.write_text(SECRETS["an API key (sk-...)"])
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(range(256)) * 100)
    assert not list(find_secrets(tmp_path, [fine, words, weights]))
    require_no_secrets(tmp_path, [fine])
