"""From a training run to the Hub and back: the card, its snippet, the tag, and what is refused."""

import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import HubError
from medal_judges.models.base.hub import files_to_upload
from medal_judges.models.card.writer import write_card
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import load_rubric

from ..fresh import run_fresh
from ..hub_stub import Hub, Repo
from ..talks import write_rated

ID = "org/judge"


def write_rows(path: Path, count: int) -> str:
    """Dialogues in two languages whose answers get longer with their rating."""
    rows = []
    for number in range(count):
        rating = 1 + number % 5
        texts = f"{path.stem} {number}?", f"{' '.join(['word'] * rating * 3)} {number}."
        labels = {"overall": rating, "repetitive": int(rating > 3 or number % 11 == 3)}
        rows.append((texts, labels))
    return write_rated(path, rows, ("en", "de"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    settings = {
        "name": "words",
        "output_dir": str(tmp_path / "run"),
        "rubric": "medal",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        },
        "train": [{"source": write_rows(tmp_path / "train.jsonl", 40)}],
        "validation": [{"source": write_rows(tmp_path / "validation.jsonl", 30)}],
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def card_of(repo: Repo, folder: Path) -> ModelCard:
    path = folder / "card.md"
    path.write_bytes(repo.files["README.md"])
    return ModelCard.load(path)


def snippet(card: ModelCard) -> str:
    found = re.search(r"```python\n(.*?)```", card.content, re.DOTALL)
    assert found is not None
    return found[1]


def saved(folder: Path) -> Path:
    return Judge.from_pretrained("configs/judges/length.yaml").save_pretrained(folder)


def test_a_run_is_pushed_described_and_loaded_again(
    hub: Hub, config: Path, tmp_path: Path
) -> None:
    home, run = tmp_path / "home", tmp_path / "run"
    push = ("push", str(run), ID, "--revision", "v1")
    for words in (("train", "--config", str(config)), push):
        done = hub.medal(home, *words)
        assert done.returncode == 0, done.stderr
    repo = hub.repos[ID]
    assert repo.private and repo.tags == {"v1": repo.branches["main"]}
    files = {"judge.json", "golden.json", "data.json", "agreement.json", "README.md"}
    fitted = {"train_config.json", "model.safetensors"}
    assert files | fitted == set(repo.files)
    assert all(repo.files[n] == (run / n).read_bytes() for n in files - {"README.md"})

    card = card_of(repo, tmp_path)
    assert card.data.language == ["de", "en"] and card.data.model_name == "words"
    figures = {
        (r.dataset_config, r.metric_type): r for r in card.data.eval_results or []
    }
    assert {"all", "de", "en"} == {lang for lang, _ in figures}
    names = {r.metric_name for r in figures.values()}
    assert names == {"Spearman's ρ, overall", "ROC AUC, repetitive"}
    assert figures["all", "spearmanr"].metric_value == pytest.approx(1)
    low, high = figures["all", "roc_auc"].metric_args["interval_95"]
    assert low <= figures["all", "roc_auc"].metric_value <= high
    for heading in ("Dimensions", "Licences", "What it cannot do", "Validation"):
        assert f"## {heading}" in card.content
    assert str(tmp_path) not in card.content
    for name, content in hub.repos[ID].files.items():
        assert str(tmp_path).encode() not in content, name
    ran = hub.run(home, snippet(card))
    assert ran.returncode == 0 and "'overall':" in ran.stdout, ran.stderr
    assert f'"{ID}", revision="v1"' in snippet(card)

    again = hub.medal(home, *push)
    assert again.returncode == 2 and "has a tag 'v1' already" in again.stderr
    checked = hub.medal(home, "doctor", f"{ID}@v1", HF_HUB_OFFLINE="1")
    assert checked.returncode == 0 and "gives the same scores here" in checked.stdout


@pytest.mark.parametrize(
    "name", ["README.md", "data.json", "members", "members/a", "encoder/a.txt"]
)
def test_a_link_is_not_followed(hub: Hub, tmp_path: Path, name: str) -> None:
    """What it points to is not the judge's: a file, a folder, a member."""
    outside = saved(tmp_path / "outside" / "a")
    secret = outside / "data.json"
    secret.write_text('{"password": "of the user"}')
    folder = saved(tmp_path / "judge")
    link = folder / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    targets = {"members": outside.parent, "members/a": outside}
    link.symlink_to(targets.get(name, secret))
    with pytest.raises(
        HubError, match="is a link: only files that stand in the folder"
    ) as caught:
        files_to_upload(folder)
    assert str(link) in str(caught.value) and "cp -rL" in str(caught.value)
    if name == "README.md":
        done = hub.medal(tmp_path / "home", "push", str(folder), ID)
        assert (
            done.returncode == 2
            and f"{link} is a link" in done.stderr
            and ID not in hub.repos
        )


def test_the_card_loads_an_encoder_without_this_package(
    tiny_bert: Path, tmp_path: Path
) -> None:
    rubric = [d for d in load_rubric("medal") if d.name in ("overall", "unsafe")]
    config = EncoderConfig(base=str(tiny_bert), max_tokens=64)
    judge = EncoderJudge.create(config, rubric)
    folder = judge.save_pretrained(tmp_path / "mine")
    write_card(folder)
    text = (folder / "README.md").read_text(encoding="utf-8")
    code = text.partition("### Without medal_judges")[2].partition("```python\n")[2]
    code = code.partition("```")[0].replace("mine", str(folder))
    done = run_fresh(f"{code}\nprint(text.encode().hex())", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    turns = (
        Turn("user", "Hi, how was your day?"),
        Turn("assistant", "Good, thanks! Yours?"),
    )
    written = bytes.fromhex(done.stdout.splitlines()[-1]).decode()
    assert written == judge.render([Dialogue("1", turns)])[0].text
