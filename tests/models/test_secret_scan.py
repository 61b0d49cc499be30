"""Nothing secret is pushed; what was found is named by place and never shown."""

from pathlib import Path

import pytest

from medal_judges.errors import HubError
from medal_judges.models.base.golden import write_golden
from medal_judges.models.base.secret_scan import find_secrets, kinds_in, require_no_secrets
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension

OVERALL = Dimension("overall", "ordinal", 1, 5)
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


B64 = "aB3" * 30
OTHERS = {
    "AWS": "AKIA" + "Q3EGXYZ7TUVWAB2C",
    "AWS secret": "aws_secret_access_key = '" + (B64 + "/+")[:40] + "'",
    "GitLab": "glpat-" + B64[:20],
    "Slack": "xoxb-" + "123456789012-1234567890123-" + B64[:24],
    "Slack hook": "https://hooks.slack.com/services/" + "T12345678/B12345678/" + B64[:24],
    "Stripe": "sk_live_" + B64[:24],
    "SendGrid": "SG." + B64[:22] + "." + B64[:43],
    "Twilio": "AC" + "0123456789abcdef" * 2,
    "Telegram": "123456789:" + B64[:35],
    "Discord": "M" + B64[:23] + "." + B64[:6] + "." + B64[:27],
    "npm": "//registry.npmjs.org/:_authToken=" + "npm_" + B64[:36],
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + B64[:80],
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + B64[:43],
    "Azure": "AccountKey=" + B64[:86] + "==",
    "Mailchimp": "0123456789abcdef" * 2 + "-us12",
    "Square": "sq0csp-" + B64[:43],
    "Google": "AIza" + B64[:35],
    "private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "password": '"password": "' + 'correct-horse-7"',
    "api key": '"api_key": "' + B64[:32] + '"',
    "OpenAI": "sk-proj-" + B64[:40] + "T3BlbkFJ" + B64[:40],
    "GitHub fine": "github_pat_" + B64[:22] + "_" + B64[:59],
    "basic": "postgres" + "://user:pass-word@db/x",
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("before", ["", "x " * 9000], ids=["short", "long"])
def test_the_kinds_that_a_kept_scanner_knows_are_found(what: str, before: str) -> None:
    assert kinds_in(f"{before}{OTHERS[what]}"), what


def test_a_judge_as_it_is_saved_holds_none(tiny_bert: Path, tmp_path: Path) -> None:
    """Nor do settings that name variables; a false alarm on each push would be switched off."""
    config = EncoderConfig(base="org/name", max_tokens=64)
    judge = EncoderJudge.create(config.model_copy(update={"base": str(tiny_bert)}), [OVERALL])
    folder = judge.save_pretrained(tmp_path / "judge")
    write_golden(judge, folder)
    found = find_secrets(folder, sorted(p for p in folder.rglob("*") if p.is_file()))
    assert {each.what for each in found} <= {"a path of a home folder"}
    lines = ["api_key_env: OPENAI_API_KEY", '"api_key_env": "MY_KEY"', "api_key: null"]
    lines += ['"password": ""', "the secret of a good chat is to listen", "revision 0123456789ab"]
    assert [kinds_in(line) for line in lines] == [[]] * len(lines)


def test_harmless_text_and_vocabularies_pass(tmp_path: Path) -> None:
    fine = tmp_path / "README.md"
    fine.write_text("task-specific hf_hub, sk-learn, /homework/, https://huggingface.co/a:b\n")
    words = tmp_path / "vocab.txt"
    words.write_text(SECRETS["an API key (sk-...)"])
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(range(256)) * 100)
    assert not list(find_secrets(tmp_path, [fine, words, weights]))
    require_no_secrets(tmp_path, [fine])
