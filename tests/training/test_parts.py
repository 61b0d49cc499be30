"""The parts of a run: batches, targets, rates, validation figures, the closed form."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from medal_judges.config import build_config, load_config
from medal_judges.errors import ConfigError, LeakError
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.turns.body import load_body
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.training.config import DataEntry, OptimConfig, TrainConfig
from medal_judges.training.families.ridge import RidgeProblem, named_columns
from medal_judges.training.families.steps_turns import balance_heads
from medal_judges.training.loop.body import body_layers, build_optimizer, build_schedule, freeze
from medal_judges.training.loop.loop import epoch_batches
from medal_judges.training.rows import (
    RowFacts,
    RunRows,
    TrainingExample,
    dimension_names,
    fit_unit_map,
    load_entry,
    load_rows,
    to_example,
)
from medal_judges.training.validation import validation_figures, watched

CONFIGS = sorted(p.name for p in Path("configs/train").glob("*.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shipped_config_is_valid(name: str) -> None:
    assert load_config(TrainConfig, f"configs/train/{name}").train


def minimal(**more: object) -> dict[str, object]:
    base = {
        "name": "x",
        "output_dir": "o",
        "rubric": "medal",
        "model": {"family": "turns"},
        "train": [{"source": "a.jsonl"}],
        "stop": {"keep": "last"},
    }
    return base | more


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"optim\.epoch'.*'epochs'"):
        build_config(TrainConfig, minimal(optim={"epoch": 3}), where="x")


def test_early_stopping_without_validation_is_a_clash() -> None:
    with pytest.raises(ConfigError, match="need validation rows"):
        build_config(TrainConfig, minimal(stop={"keep": "best"}), where="x")


@pytest.mark.parametrize(
    ("model", "optim"),
    [
        ({"pooling": "role"}, {"solver": "ridge"}),
        ({"reply": {"positive": ["a"], "negative": ["b"]}}, {}),
    ],
)
def test_closed_forms_need_a_frozen_hierarchical_body(model: dict, optim: dict) -> None:
    settings = minimal(model={"family": "turns"} | model, optim=optim)
    with pytest.raises(ConfigError, match="trainable_layers: 0"):
        build_config(TrainConfig, settings, where="x")
    assert build_config(TrainConfig, settings | {"trainable_layers": 0}, where="x")


def test_the_closed_form_is_refused_for_a_pooling_it_does_not_solve() -> None:
    model = {"family": "turns", "net": "linear", "pooling": "attention"}
    settings = minimal(model=model, trainable_layers=0, optim={"solver": "ridge"})
    with pytest.raises(ConfigError, match="pooling: role"):
        build_config(TrainConfig, settings, where="x")
    assert build_config(TrainConfig, settings | {"optim": {}}, where="x")


def row(id: str, value: float, scale: tuple[float, float] | None = (0, 4)) -> LabelledDialogue:
    dialogue = Dialogue(id, (Turn("user", f"hello {id}"), Turn("assistant", f"well {id}")))
    return LabelledDialogue(dialogue, {"q": (value, value + 1)}, {"q": scale}, group=id)


def targets_of(rows: list[LabelledDialogue], **entry: object) -> list[float]:
    one = DataEntry(source="s", dimensions={"q": "overall"}, **entry)  # type: ignore[arg-type]
    facts = RowFacts.of(rows)
    names = dimension_names(one, facts.scales, ["overall"])
    maps = {n: fit_unit_map(one, facts, n) for n in names}
    made = [to_example(r, one, names, maps, {}, False) for r in rows]
    return [each.targets["overall"] for each in made]  # type: ignore[misc]


def test_targets_are_the_mean_of_the_annotators_on_the_unit_scale() -> None:
    assert targets_of([row("a", 0), row("b", 3)]) == [0.125, 0.875]


def test_standardised_targets_have_their_mean_in_the_middle() -> None:
    values = [-2.0, -0.5, 0.0, 0.4, 2.6]
    found = np.array(targets_of([row(str(v), v, None) for v in values], rescale="standardise"))
    means = np.array(values) + 0.5
    assert found == pytest.approx(0.5 + 0.2 * (means - means.mean()) / means.std())


def test_a_scale_without_bounds_asks_for_a_rescale() -> None:
    with pytest.raises(ConfigError, match="standardise"):
        targets_of([row("a", 0, None)])


def test_an_unknown_dimension_names_what_is_there() -> None:
    with pytest.raises(ConfigError, match="no row has a label"):
        dimension_names(DataEntry(source="s", dimensions={"p": "overall"}), ["q"], ["overall"])


def test_soft_labels_are_the_annotators_shares() -> None:
    one = DataEntry(source="s", dimensions={"q": "overall"})
    maps = {"q": fit_unit_map(one, RowFacts.of([row("a", 1)]), "q")}
    for soft, levels in ((True, [0, 0.5, 0.5, 0, 0]), (False, [0, 0, 1, 0, 0])):
        found = to_example(row("a", 1), one, {"q": "overall"}, maps, {"overall": 5}, soft)
        assert list(found.targets["overall"]) == levels  # type: ignore[arg-type]


def padding_share(batches: list[list[int]], lengths: list[int]) -> float:
    """Share of padded positions that hold no token."""
    padded = sum(len(b) * max(lengths[row] for row in b) for b in batches)
    return 1 - sum(lengths[row] for b in batches for row in b) / padded


def test_batches_are_the_same_for_seed_and_epoch_and_hold_every_row_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, 500).tolist()
    optim = OptimConfig(batch_size=16, batch_tokens=2000)
    one = epoch_batches(lengths, optim, seed=0, epoch=3)
    assert one == epoch_batches(lengths, optim, seed=0, epoch=3)
    assert one != epoch_batches(lengths, optim, seed=0, epoch=4)
    assert one != epoch_batches(lengths, optim, seed=1, epoch=3)
    assert sorted(r for b in one for r in b) == list(range(500))
    for batch in one:
        assert len(batch) <= 16
        assert len(batch) == 1 or len(batch) * max(lengths[r] for r in batch) <= 2000
    plain = epoch_batches(
        lengths, optim.model_copy(update={"length_grouped": False}), seed=0, epoch=3
    )
    assert padding_share(one, lengths) < 0.3 * padding_share(plain, lengths)
    assert len(epoch_batches(lengths, optim, seed=0, epoch=3, count=100)) == 100


def test_rates_fall_layer_by_layer_and_frozen_layers_do_not_learn(tiny_bert: Path) -> None:
    body, _ = load_body(str(tiny_bert))
    model = torch.nn.ModuleDict({"body": body, "head": torch.nn.Linear(4, 1)})
    optim = OptimConfig(lr=1e-2, body_lr=1e-3, layer_decay=0.5, weight_decay=0.1)
    rates = {
        id(p): (g["lr"], g["weight_decay"])
        for g in build_optimizer(model, body, optim).param_groups
        for p in g["params"]
    }
    first, second = body_layers(body)
    assert rates[id(model["head"].weight)] == pytest.approx((1e-2, 0.1))
    assert rates[id(model["head"].bias)] == pytest.approx((1e-2, 0.0))
    for layer, rate in ((second, 1e-3), (first, 0.5e-3)):
        for parameter in layer.parameters():
            assert rates[id(parameter)][0] == pytest.approx(rate)
    assert rates[id(body.embeddings.word_embeddings.weight)][0] == pytest.approx(0.25e-3)
    freeze(body, 1)
    assert all(p.requires_grad for p in second.parameters())
    assert not any(p.requires_grad for p in first.parameters())


def test_warm_up_and_decay() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = build_schedule(optimizer, OptimConfig(warmup=0.2, schedule="linear"), steps=10)
    rates = []
    for _ in range(10):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates[3:] == sorted(rates[3:], reverse=True) and rates[-1] > 0


def example(source: str, value: float, weight: float = 1.0) -> TrainingExample:
    dialogue = Dialogue("1", (Turn("user", "a"), Turn("assistant", "b")))
    return TrainingExample(dialogue, source, {"overall": value}, weight, {"overall": value}, "g")


def test_the_closed_form_is_sklearns_ridge_within_sources() -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(90, 6))
    sources = ["a"] * 60 + ["b"] * 30
    truth = table @ np.array([1.0, -2, 0, 0, 0.5, 0]) + generator.normal(size=90) * 0.1
    truth[60:] += 7  # the second source is rated higher all over
    unit = 0.5 + 0.02 * truth
    problem = RidgeProblem.of(
        [example(s, u) for s, u in zip(sources, unit, strict=True)], table, "overall"
    )
    found = problem.solve(np.ones(6), 0.3, np.zeros(6))
    centred, answers = table.copy(), unit / 0.2
    for part in (slice(0, 60), slice(60, 90)):
        centred[part] -= centred[part].mean(0)
        answers[part] -= answers[part].mean()
    weights = np.array([1 / 60] * 60 + [1 / 30] * 30)
    fitted = Ridge(alpha=0.3, fit_intercept=False).fit(centred, answers, sample_weight=weights)
    wanted = fitted.coef_

    def spread(values: np.ndarray) -> float:
        return float(np.sqrt(np.average(values**2, weights=weights)))

    assert found == pytest.approx(wanted * spread(answers) / spread(centred @ wanted), rel=1e-8)


def test_a_prior_pulls_the_answer_and_keeps_its_spread() -> None:
    generator = np.random.default_rng(1)
    table = generator.normal(size=(200, 4))
    unit = 0.5 + 0.1 * table[:, 0]
    problem = RidgeProblem.of([example("a", u) for u in unit], table, "overall")
    scale = problem.column_scale(2, 0.0)
    assert scale[1] > 0 and scale[2] > 0  # two features on each of the two sides
    plain = problem.solve(np.ones(4), 1e-6, np.zeros(4))
    pulled = problem.solve(np.ones(4), 1e-6, np.array([0, 0.5, 0, 0]))
    assert abs(plain[1]) < 0.01 * abs(plain[0])
    assert pulled[1] / pulled[0] == pytest.approx(
        0.5 * table[:, 0].std() / table[:, 1].std(), rel=0.02
    )
    for found in (plain, pulled):
        assert float(problem.deviation(problem.x @ found[:, None])[0]) == pytest.approx(
            float(problem.deviation(problem.y[:, None])[0])
        )


def test_a_feature_group_reads_the_columns_it_names() -> None:
    config = TurnsConfig(features=("log_words", "copy"))
    found = named_columns(config, [("user.copy", 2.0), ("log_words", 1.0)], half=3)
    assert found.tolist() == [1, 2, 0, 1, 0, 0]
    with pytest.raises(ConfigError, match=r"user\.NAME"):
        named_columns(config, [("nobody.copy", 1.0)], half=3)


def test_balance_is_negatives_over_positives() -> None:
    model = TurnsConfig(heads={"overall": HeadConfig(kind="binary", positive_weight="balanced")})
    examples = [example("a", v) for v in (1.0, 0.0, 0.0, 0.0)]
    assert balance_heads(model, examples).heads["overall"].positive_weight == 3.0


def test_validation_figures_average_over_sources() -> None:
    up, down = [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]
    examples = [example("a", v) for v in up] + [example("b", v) for v in down]
    found = validation_figures(examples, {"overall": np.array(up + up)}, set())
    assert found["spearman/overall"] == pytest.approx(0.0)
    assert validation_figures(examples[:3], {"overall": np.array(up)}, {"overall"})["auc"] == 1.0
    with pytest.raises(ConfigError, match="there are: spearman"):
        watched(found, "spearman/fun")


def loaded(folder: Path, files: dict[str, list[str]], **more: object) -> RunRows:
    """The rows of a run on tables of ratings whose columns a file maps."""
    columns = "{id: nr, prompt: Frage, response: Antwort, group: Kunde, labels: {Note: 'fun:1..5'}}"
    (folder / "map.yaml").write_text(columns)
    for part, rows in files.items():
        lines = [f"{part}{row},Frage {row}?,Antwort {row},3,{row[0]}" for row in rows]
        (folder / f"{part}.csv").write_text("\n".join(["nr,Frage,Antwort,Note,Kunde", *lines]))
        source = {"source": str(folder / f"{part}.csv"), "columns": str(folder / "map.yaml")}
        more[part] = [source]
    config = build_config(TrainConfig, minimal(**more), where="x")
    return load_rows(config, [Dimension("fun", "ordinal", 1, 5)])


def test_a_leak_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(LeakError, match="train4 ~ test4"):
        loaded(tmp_path, {"train": [*"01234"], "test": [*"45678"]})


def test_a_split_divides_groups_by_their_hash(tmp_path: Path) -> None:
    rows = [f"{group}{n}" for group in "abcdefghijklmnopqrst" for n in range(3)]
    split, found = {"validation": 0.2, "test": 0.2, "seed": 1}, []
    for order in (rows, rows[::-1]):
        run = loaded(tmp_path, {"train": order}, split=split, stop={"keep": "best"})
        parts = [run.train, run.validation, run.test]
        found.append([{example.group for example in part} for part in parts])
        assert [3 * len(groups) for groups in found[-1]] == [fact["rows"] for fact in run.facts]
    assert found[0] == found[1] and all(found[0]) and sum(map(len, found[0])) == 20
    for wrong in ({"validation": 0.6, "test": 0.4}, {"test": 1e-9}, {"train": 0.5}):
        with pytest.raises(ConfigError, match="split"):
            loaded(tmp_path, {"train": rows}, split=wrong)


def test_languages_of_any_entry_are_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("w") as stream:
        for n, lang in enumerate(["en", "de", "zh-Hant", "en"]):
            dialogue = [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "!"}]
            record = {"id": str(n), "lang": lang, "dialogue": dialogue, "labels": {"fun": [3]}}
            stream.write(json.dumps(record | {"scales": {"fun": [1, 5]}, "labels_by": "m"}) + "\n")
    entries = {
        part: [{"source": str(path), "langs": [lang]}]
        for part, lang in (("train", "en"), ("validation", "zh"), ("test", "de"))
    }
    config = build_config(TrainConfig, minimal(**entries), where="x")
    run = load_rows(config, [Dimension("fun", "ordinal", 1, 5)])
    parts = (run.train, run.validation, run.test)
    assert [[e.dialogue.id for e in part] for part in parts] == [["0", "3"], ["2"], ["1"]]
    assert [fact["labels_by"] for fact in run.facts] == [["m"]] * 3
    with pytest.raises(ConfigError, match=r"rows.jsonl: no row is in fr(?s:.*)de, en, zh"):
        load_entry(DataEntry(source=str(path), langs=("fr", "de")), 0)
