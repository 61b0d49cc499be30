"""Linear judges: nothing depends on the batch, turns add up, what is saved comes back."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import medal_judges.models.linear.reader as reader_module
from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import Calibration, squash_to_unit
from medal_judges.models.base.turn_features import USUAL_FEATURES
from medal_judges.models.linear.config import REACTION_NAMES, LinearConfig
from medal_judges.models.linear.encoder import TextEncoder
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.reader import answer_weights
from medal_judges.records.dimension import Dimension

from ..conftest import WORDS
from ..linear_judges import random_judge
from ..talks import talk

REPLY = {"positive": ["music"], "negative": ["river", "winter"]}
FEATURES = ("log_words", "user.last_own", "assistant.copy", "question")
DIMENSIONS = (
    Dimension("overall", "ordinal", 1, 5),
    Dimension("fun", "continuous", 0, 1),
    Dimension("repetitive", "binary", 0, 1, good="low"),
)
MIXED = {"overall": "ridge", "fun": "mlp_classifier", "repetitive": "logistic"}


def dialogues(count: int = 24) -> list[Dialogue]:
    """Dialogues of 1 to 30 turns of 0 to 40 words, some without an assistant."""
    rng = np.random.default_rng(0)
    given = []
    for number in range(count):
        texts = [
            " ".join(rng.choice(WORDS, rng.integers(40)))
            for _ in range(rng.integers(1, 31))
        ]
        given.append(talk(*texts, id=str(number)))
    return given


def answered(count: int = 6) -> list[Dialogue]:
    return [dialogue for dialogue in dialogues(3 * count) if dialogue.assistant_turns][
        :count
    ]


def judge(base: Path, dimensions: Any = DIMENSIONS, **settings: Any) -> LinearJudge:
    defaults = {"features": FEATURES, "heads": MIXED, "limit": 4.0}
    return random_judge(base, dimensions, **(defaults | settings))


SHAPES: list[dict[str, Any]] = [
    {},
    {"reading": "dialogue"},
    {"vectors": False},
    {
        "reply": REPLY,
        "features": (*FEATURES, "user.reaction", "assistant.expected_reaction"),
    },
    {"heads": {"overall": "mlp_classifier"}, "head": "mlp_classifier"},
    {"reading": "answers", "features": ("log_words", "last_own")},
]


def unit_scores(made: Judge, judgements: Any) -> list[list[float]]:
    return [
        [
            made.dimension(name).to_unit(score)
            for name, score in judgement.scores.items()
        ]
        if judgement.failure is None
        else []
        for judgement in judgements
    ]


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_scores_do_not_depend_on_batch_window_or_order(
    tiny_bert: Path, settings: dict
) -> None:
    made, given = judge(tiny_bert, **settings), dialogues()
    forwards = unit_scores(made, made.score(given))
    made.window, made.token_budget = 5, 200
    backwards = unit_scores(made, made.score(given[::-1]))[::-1]
    for one, other in zip(forwards, backwards, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    # and the scores do differ
    assert len({round(row[0], 4) for row in forwards if row}) > 10


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_a_saved_judge_comes_back_the_same(
    tiny_bert: Path, tmp_path: Path, settings: dict
) -> None:
    made, given = judge(tiny_bert, **settings), answered(8)
    made.calibration = {"overall": Calibration(spread=0.2, margin=0.1, rows=30)}
    before = list(made.score(given))
    folder = made.save_pretrained(tmp_path / "judge")
    loaded = Judge.from_pretrained(folder, device="cpu")
    assert isinstance(loaded, LinearJudge) and loaded.calibration == made.calibration
    for one, other in zip(loaded.score(given), before, strict=True):
        assert one.scores == pytest.approx(dict(other.scores), abs=4e-5)
        for name, account in other.contributions.items():
            assert one.contributions[name].turns == pytest.approx(
                account.turns, abs=1e-5
            )
    assert str(loaded.signature()) == str(made.signature())
    written = "".join(path.read_text() for path in folder.rglob("*.json"))
    assert str(tmp_path.parent) not in written.replace(str(tiny_bert), "")
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".safetensors", ".csv", ".txt"}


COMPARED = ("nearest_own", "centred_nearest_own", "last_partner")
COMPARING = {
    "features": (*FEATURES, *COMPARED, "centred_mean_partner", *REACTION_NAMES),
    "reply": REPLY,
}


@pytest.mark.parametrize(
    "left_out", [(), ("centred_", "reply", "reaction", "follows")], ids=str
)
def test_answers_scored_together_have_the_scores_of_their_beginnings_alone(
    tiny_bert: Path, left_out: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_TURNS", 9)
    settings: dict[str, Any] = dict(COMPARING)
    for name in left_out:
        settings.pop(name, None)
        kept = [feature for feature in settings["features"] if name not in feature]
        settings["features"] = tuple(kept)
    made = judge(tiny_bert, **settings)
    long = talk(*[f"music film {WORDS[n * n % 12]} {WORDS[n % 7]}" for n in range(41)])
    together = list(made.score([long], level="turn"))
    assert len({round(j.scores["overall"], 4) for j in together}) > 10
    for judgement in together:
        assert judgement.turn is not None
        beginning = Dialogue("alone", long.turns[: judgement.turn + 1])
        [alone] = made.score([beginning])
        assert judgement.truncated_turns == alone.truncated_turns
        assert judgement.scores == pytest.approx(alone.scores, abs=1e-5)
        parts, alone_parts = judgement.contributions, alone.contributions
        assert parts["overall"].turns == pytest.approx(
            alone_parts["overall"].turns, abs=1e-5
        )


@pytest.mark.parametrize("reading", ["turns", "answers"])
def test_the_oldest_turns_beyond_the_limit_are_left_out(
    tiny_bert: Path, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = ("log_words", "copy")
    long = talk(*[f"music film {WORDS[n % 12]}" for n in range(60)])
    limited = judge(tiny_bert, reading=reading, features=features, max_tokens=400)
    (whole,) = limited.score([long])
    monkeypatch.setattr(reader_module, "MAX_TURNS", 9)
    (cut,) = limited.score([long])
    assert cut.truncated_turns == 51 and len(cut.contributions["overall"].turns) == 60
    assert not any(cut.contributions["overall"].turns[:51])
    assert whole.truncated_turns == 0
    # The last answer is read, however much the user says after it.
    monologue = Dialogue("m", (*long.turns[:2], *[Turn("user", "river")] * 20))
    (judgement,) = limited.score([monologue])
    assert judgement.scored and judgement.truncated_turns == 1


@pytest.mark.parametrize("name", ["overall", "repetitive"])
def test_the_first_cause_is_the_feature_that_an_average_turn_would_not_cost(
    tiny_bert: Path, name: str
) -> None:
    made = judge(tiny_bert, features=USUAL_FEATURES, vectors=False)
    names, reader = made.config.bare_feature_names, made.reader
    sign = {"overall": 1, "repetitive": -1}[name]
    # every turn is worse than an average one
    made.heads[name] = replace(made.heads[name], averages=(sign * 5.0, sign * 5.0))
    causes_seen = set()
    for judgement, dialogue in zip(made.score(answered()), answered(), strict=True):
        account = judgement.contributions[name]
        turn = account.worst_turn(made.dimension(name).good)
        assert turn is not None
        least = min(sign * move for move in account.turns)
        assert sign * account.turns[turn] == pytest.approx(least, abs=1e-5)
        (reading,) = reader.read([dialogue], 10_000)

        def output(measures: np.ndarray, reading: Any = reading) -> float:
            rows = reader.turn_columns([replace(reading, features=measures)])
            columns = reader.pool_turns([reading], rows, reading.weights)
            return float(made.heads[name].outputs(columns)[0, 0])

        gains = []
        for feature in range(len(names)):
            averaged = reading.measures.copy()
            averaged[turn, feature] = reader.scale.mean[reading.roles[turn], feature]
            gains.append(sign * (output(averaged) - output(reading.measures)))
        costs = sorted(gains, reverse=True)
        first, *others = account.causes
        assert gains[names.index(first.feature)] == pytest.approx(costs[0], abs=1e-9)
        for cause, cost in zip(others, costs[1:], strict=False):
            assert gains[names.index(cause.feature)] == pytest.approx(cost, abs=1e-9)
            assert cost >= costs[0] / 4 - 1e-9
        value = reading.measures[turn, names.index(first.feature)]
        assert first.value == pytest.approx(value, abs=1e-9)
        causes_seen.add(first.feature)
    assert causes_seen


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_contributions_add_up_to_the_score(tiny_bert: Path, settings: dict) -> None:
    if "mlp_classifier" in settings.get("heads", {}).values():
        settings = {}
    made = judge(tiny_bert, **settings)
    made.calibration = {"repetitive": Calibration(temperature=1.7)}
    for judgement, dialogue in zip(made.score(answered()), answered(), strict=True):
        if settings.get("reading") == "dialogue":
            assert not judgement.contributions
            continue
        assert set(judgement.contributions) == {"overall", "repetitive"}
        overall, issue = (
            judgement.contributions["overall"],
            judgement.contributions["repetitive"],
        )
        assert len(overall.turns) == len(issue.turns) == len(dialogue.turns)
        assert (overall.unit, issue.unit) == ("score", "logit")
        assert judgement.details["overall"]["raw"] == pytest.approx(
            overall.value, abs=1e-9
        )
        mapped = 1 + 4 * squash_to_unit((overall.value - 1) / 4)
        assert judgement.scores["overall"] == pytest.approx(mapped, abs=1e-9)
        chance = 1 / (1 + math.exp(-issue.value))
        assert judgement.scores["repetitive"] == pytest.approx(chance, abs=1e-9)


def test_columns_are_means_of_turns_by_side(tiny_bert: Path) -> None:
    """By hand, from what sentence-transformers and the features say."""
    from sentence_transformers import SentenceTransformer

    from medal_judges.models.base.turn_features import FEATURE_NAMES, surface_features

    made = LinearJudge.create(
        LinearConfig(
            base=str(tiny_bert), max_tokens=64, features=("log_words", "user.question")
        ),
        [],
    )
    (dialogue,) = answered(1)
    (reading,) = made.reader.read([dialogue], 4096)
    rows = made.reader.turn_columns([reading])
    (columns,) = made.reader.pool_turns([reading], rows, reading.weights)
    model = SentenceTransformer(str(tiny_bert))
    vectors = model.encode(
        [t.content for t in dialogue.turns], normalize_embeddings=True
    )
    places = [FEATURE_NAMES.index("log_words"), FEATURE_NAMES.index("question")]
    rows = np.concatenate([surface_features(dialogue)[:, places], vectors], axis=1)
    users = [
        number for number, turn in enumerate(dialogue.turns) if turn.role == "user"
    ]
    by_hand = [
        rows[users].mean(axis=0),
        rows[list(dialogue.assistant_turns)].mean(axis=0),
    ]
    assert columns == pytest.approx(np.concatenate(by_hand), abs=1e-5)
    named = made.reader.feature_row({"user.question": 2.0, "log_words": 1.0})
    assert np.flatnonzero(named).tolist() == [0, 1, 34] and named[:2].tolist() == [1, 2]


def test_pooling_is_that_of_sentence_transformers(
    tiny_bert: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["music film", "a garden in winter", "train"]
    for mode in ("mean", "cls", "lasttoken", "max"):
        model = SentenceTransformer(str(tiny_bert))
        model[1].pooling_mode = mode
        folder = tmp_path / mode
        model.save_pretrained(str(folder))
        encoder = TextEncoder.load_base(LinearConfig(base=str(folder), max_tokens=64))
        vectors = encoder.embed(
            [encoder.to_pieces(ids) for ids in encoder.token_ids(texts)], 64
        )
        wanted = SentenceTransformer(str(folder)).encode(
            texts, normalize_embeddings=True
        )
        assert vectors == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("part", ["module", "pickle"])
def test_a_base_with_code_is_refused_before_it_is_loaded(
    tiny_bert: Path, tmp_path: Path, part: str
) -> None:
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(tiny_bert)).save(str(tmp_path))
    if part == "pickle":
        (tmp_path / "2_Dense").mkdir()
        (tmp_path / "2_Dense" / "pytorch_model.bin").write_bytes(b"")
    else:
        modules = json.loads((tmp_path / "modules.json").read_text())
        modules[1]["type"] = "antigravity.Pooling"
        (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(JudgeLoadError):
        TextEncoder.load_base(LinearConfig(base=str(tmp_path), max_tokens=64))


def test_a_text_longer_than_the_window_is_read_in_pieces(tiny_bert: Path) -> None:
    encoder = TextEncoder.load_base(LinearConfig(base=str(tiny_bert), max_tokens=16))
    (ids,) = encoder.token_ids([" ".join(WORDS * 5)])
    pieces = encoder.to_pieces(ids)
    start, end = len(encoder.prefix), len(encoder.suffix)
    assert [i for piece in pieces for i in piece[start : len(piece) - end]] == ids
    assert len(pieces) > 3 and max(map(len, pieces)) <= 16
    (whole,) = encoder.embed([pieces], 100)
    parts = torch.tensor(
        np.array([encoder.embed([[piece]], 100)[0] for piece in pieces])
    )
    assert np.linalg.norm(whole) == pytest.approx(1, abs=1e-5)
    assert float(torch.tensor(whole) @ parts.mean(0)) > 0.9
    assert encoder.embed([], 64).shape == (0, 32) and encoder.token_ids([]) == []
    with pytest.raises(ConfigError, match="max_tokens 513 is above the 512"):
        TextEncoder.load_base(LinearConfig(base=str(tiny_bert), max_tokens=513))


# -- answers ---------------------------------------------------------------------------------------


def answers(base: Path, **settings: Any) -> LinearJudge:
    features = ("log_words", "last_own", "question")
    more = {
        "reading": "answers",
        "features": features,
        "max_tokens": 500,
        "limit": None,
    }
    return judge(base, **(more | settings))


def raws(made: Judge, given: list[Dialogue], level: Any = "dialogue") -> list[float]:
    return [j.details["overall"]["raw"] for j in made.score(given, level=level)]


@pytest.mark.parametrize("base", ["tiny_llama", "tiny_bert"])
def test_the_score_of_an_answer_is_that_of_the_dialogue_up_to_it(
    base: str, request: pytest.FixtureRequest
) -> None:
    made = answers(request.getfixturevalue(base))
    given = [dialogue for dialogue in answered() if len(dialogue.assistant_turns) > 1]
    beginnings = []
    for dialogue in given:
        for end in dialogue.assistant_turns:
            beginnings.append(replace(dialogue, turns=dialogue.turns[: end + 1]))
    by_turn = raws(made, given, "turn")
    assert by_turn == pytest.approx(raws(made, beginnings, "last"), abs=1e-5)
    for beginning, judgement in zip(
        beginnings, made.score(beginnings, level="last"), strict=True
    ):
        turns = beginning.turns
        account = judgement.contributions["overall"]
        raw = judgement.details["overall"]["raw"]
        assert account.value == pytest.approx(raw, abs=1e-9)
        moved = [turn for turn, value in enumerate(account.turns) if value]
        asked = [turn for turn in range(judgement.turn) if turns[turn].role == "user"]
        assert moved == [*asked[-1:], judgement.turn]


def test_an_answer_is_read_with_the_last_user_turn_before_it(tiny_bert: Path) -> None:
    made = answers(tiny_bert, features=())
    turns = ["assistant music", "user film", "user river", "assistant bread"]
    turns += ["assistant garden", "user winter"]
    dialogue = Dialogue("1", tuple(Turn(*turn.split()) for turn in turns))
    (reading,) = made.reader.read([dialogue], 1000)
    rows = made.reader.turn_columns([reading])
    music, _, river, bread, garden, _ = rows
    nothing = np.zeros_like(music)
    for answer, expected in ((0, [nothing, music]), (3, [river, bread])):
        weights = answer_weights(reading.roles, [answer])
        (columns,) = made.reader.pool_turns([reading], rows, weights)
        assert columns == pytest.approx(np.concatenate(expected))
    # The mean of all answers; the one without a user turn has an average user side.
    weights = answer_weights(reading.roles, [0, 3, 4])
    (columns,) = made.reader.pool_turns([reading], rows, weights)
    expected = [2 * river / 3, (music + bread + garden) / 3]
    assert columns == pytest.approx(np.concatenate(expected))
    opening = Dialogue("1", (Turn("assistant", "music"),))
    assert None not in next(made.score([opening])).scores.values()


# -- folders and settings that do not fit ---------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 3])
def test_a_network_of_another_depth_than_its_weights_is_refused(
    tiny_bert: Path, tmp_path: Path, layers: int
) -> None:
    """Layers that the file lacks would be drawn at random, those beyond be left out."""
    folder = judge(tiny_bert).save_pretrained(tmp_path / "judge")
    path = folder / "encoder" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": layers})
    )
    with pytest.raises(JudgeLoadError, match="other weights"):
        Judge.from_pretrained(folder)


# -- the plain baselines --------------------------------------------------------------------------


def chat(id: str, *texts: str) -> Dialogue:
    turns = [
        t
        for text in texts
        for t in (Turn("user", "and then?"), Turn("assistant", text))
    ]
    return Dialogue(id, tuple(turns))


def test_a_baseline_is_the_sigmoid_of_its_z_score() -> None:
    (judgement,) = Judge.from_pretrained("length").score(
        [chat("s", "yes", "no and no")]
    )
    z = (np.mean(np.log1p([1, 3])) - 2.2) / 0.6
    assert judgement.scores["overall"] == pytest.approx(
        1 + 4 / (1 + math.exp(-z)), abs=1e-6
    )


def test_offsets_shift_the_ridge_scores_of_their_language(tiny_bert: Path) -> None:
    """Turns still add up to the score, and the judge supports the languages of its offsets."""
    plain = judge(tiny_bert)
    moved = judge(tiny_bert, offsets={"overall": {"en": 0.0, "ja": 0.1}})
    assert moved.languages == ("en", "ja")
    for dialogue in answered():
        scores = {}
        for language in ("en", "ja", "ja-JP", "de"):
            given = replace(dialogue, lang=language)
            shown = next(iter(moved.score([given], warn=False)))
            scores[language] = shown.scores
            turns = shown.contributions["overall"]
            raw = shown.details["overall"].get("raw", shown.scores["overall"])
            assert turns.value == pytest.approx(raw, abs=1e-6)
        before = next(iter(plain.score([dialogue]))).scores
        assert scores["en"] == pytest.approx(before, abs=4e-5)
        assert scores["de"] == pytest.approx(before, abs=4e-5)
        assert scores["ja-JP"] == pytest.approx(scores["ja"], abs=4e-5)
        assert scores["ja"]["overall"] > scores["en"]["overall"]
        assert scores["ja"]["repetitive"] == pytest.approx(
            scores["en"]["repetitive"], abs=1e-5
        )
