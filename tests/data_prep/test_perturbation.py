"""Planted issues: what is edited, what is not, and what cannot give the label away."""

from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import typer
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from medal_judges.cli.data import plant
from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    Donors,
    Split,
    sentence_table_entries,
    sound_and_faulty,
)
from medal_judges.data_prep.perturbation.injection import (
    ISSUES,
    STRENGTHS,
    inject_pair,
    make_issue_rows,
)
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

# Ten answers a language, on ten subjects, of six words or more (in Chinese, characters to match).
ANSWERS = {
    "en": """I went hiking near the waterfall with my cousin yesterday.
Have you ever baked sourdough bread in a wooden stove?
My bicycle needs new brakes before the long summer tour.
We watched a documentary about octopuses and their strange memory.
The concert was cancelled because the singer caught a cold.
I am learning Swedish with an application on my phone.
Our garden is full of tomatoes and yellow peppers now.
Did your sister finish painting the kitchen last weekend?
That novel about the lighthouse family made me rather thoughtful.
Skating on frozen rivers always frightened me as a kid.""",
    "de": """Gestern war ich mit meiner Cousine am Wasserfall wandern.
Hast du schon einmal Sauerteigbrot im Holzofen gebacken?
Mein Fahrrad braucht vor der langen Sommertour neue Bremsen.
Wir haben einen Dokumentarfilm über Tintenfische und ihr Gedächtnis gesehen.
Das Konzert fiel aus, weil die Sängerin plötzlich erkältet war.
Ich lerne gerade Schwedisch mit einem Programm auf dem Handy.
Unser Garten steht voller Tomaten und gelber Paprika zurzeit.
Hat deine Schwester letztes Wochenende die Küche fertig gestrichen?
Der Roman über die Leuchtturmfamilie machte mich ziemlich nachdenklich.
Schlittschuhlaufen auf zugefrorenen Flüssen machte mir als Kind Angst.""",
    "fr": """Hier je suis allé marcher près de la cascade avec ma cousine.
As-tu déjà cuit du pain au levain dans un four à bois ?
Mon vélo a besoin de freins neufs avant la grande randonnée.
Nous avons regardé un documentaire sur les pieuvres et leur mémoire.
Le concert est annulé parce que la chanteuse a pris froid.
J'apprends le suédois avec une application sur mon téléphone.
Notre jardin est rempli de tomates et de poivrons jaunes.
Ta sœur a-t-elle fini de repeindre la cuisine samedi dernier ?
Ce roman sur une famille de marins m'a rendu songeur.
Patiner sur les rivières gelées me terrifiait quand j'étais enfant.""",
    "pt": """Ontem fui caminhar junto da cascata com a minha prima.
Alguma vez cozeste pão de massa-mãe num forno de lenha?
A minha bicicleta precisa de travões novos antes da viagem.
Vimos um documentário sobre polvos e a sua memória estranha.
O concerto foi cancelado porque a cantora ficou constipada.
Estou a aprender sueco com uma aplicação no telemóvel.
A nossa horta está cheia de tomates e pimentos amarelos.
A tua irmã acabou de pintar a cozinha no sábado passado?
Aquele romance sobre uma família de marinheiros deixou-me pensativo.
Patinar em rios gelados assustava-me muito quando era pequeno.""",
    "es": """Ayer fui a caminar junto a la cascada con mi prima.
¿Alguna vez has horneado pan de masa madre en leña?
Mi bicicleta necesita frenos nuevos antes del viaje largo.
Vimos un documental sobre pulpos y su extraña memoria.
El concierto se canceló porque la cantante estaba resfriada.
Estoy aprendiendo sueco con una aplicación en el teléfono.
Nuestro huerto está lleno de tomates y pimientos amarillos.
¿Tu hermana terminó de pintar la cocina el sábado pasado?
Aquella novela sobre una familia de marineros me dejó pensativo.
Patinar sobre ríos helados me asustaba mucho cuando era niño.""",
    "zh": """昨天我和表妹一起去瀑布附近徒步旅行了。
你有没有用柴火炉子烤过酸面包呀？
夏天长途骑车之前我得换新的刹车片。
我们看了一部关于章鱼记忆力的纪录片。
音乐会取消了，因为歌手突然感冒发烧。
我正在用手机上的软件学习瑞典语单词。
我们院子里种满了西红柿和黄色的辣椒。
你姐姐上个周末把厨房的墙刷完了吗？
那本写灯塔人家的小说让我沉思了很久。
小时候在结冰的河面上滑冰总让我害怕。""",
}


def conversation(lang: str, number: int, turns: int = 12) -> LabelledDialogue:
    """Answers in an order of its own; the user just keeps the talk going."""
    rng = np.random.default_rng([number, LANGUAGES.index(lang)])
    answers = iter(rng.permutation(ANSWERS[lang].split("\n")))
    said = [
        Turn("assistant", str(next(answers)))
        if i % 2
        else Turn("user", f"{i}, {number}?")
        for i in range(turns)
    ]
    dialogue = Dialogue(f"{lang}{number}", tuple(said), lang)
    return LabelledDialogue(
        dialogue, {"overall": (3.0,)}, {}, group=f"group-{lang}{number}"
    )


SPLITS: tuple[Split, ...] = ("train", "val", "test")
ROWS = [conversation(lang, number) for lang in LANGUAGES for number in range(12)]
ORIGINALS = {row.id: row.dialogue for row in ROWS}


@pytest.fixture(scope="module")
def planted() -> list[LabelledDialogue]:
    return [
        row
        for seed in range(3)
        for row in make_issue_rows(ROWS, seed=seed, clean_count=0)
    ]


def about(row: LabelledDialogue) -> dict[str, object]:
    return dict(row.extra["planted"])


def original(row: LabelledDialogue) -> Dialogue:
    return ORIGINALS[row.id.split("+")[0]]


def pairs(
    rows: list[LabelledDialogue],
) -> list[tuple[LabelledDialogue, LabelledDialogue]]:
    return list(zip(rows[::2], rows[1::2], strict=True))


def one(
    dialogue: Dialogue, issue: str, strength: int, seed: int = 0
) -> tuple[LabelledDialogue, LabelledDialogue]:
    return inject_pair(
        LabelledDialogue(dialogue, {}, {}, group=dialogue.id),
        issue,
        strength=strength,
        rng=np.random.default_rng(seed),
        donors=Donors.from_rows(ROWS),
        split="train",
    )


def test_every_planted_row_is_followed_by_its_control(
    planted: list[LabelledDialogue],
) -> None:
    for faulty, innocent in pairs(planted):
        issue = str(about(faulty)["issue"])
        assert (about(faulty)["kind"], about(innocent)["kind"]) == (
            "planted",
            "innocent",
        )
        assert about(faulty)["pair"] == about(innocent)["pair"]
        assert about(faulty)["turns"] == about(innocent)["turns"]
        assert faulty.labels[issue] == (1.0,) and innocent.labels[issue] == (0.0,)
        others = {**faulty.labels, issue: (0.0,)}
        assert others == innocent.labels and set(sum(others.values(), ())) == {0.0}
        assert faulty.group == innocent.group == f"group-{original(faulty).id}"


def test_only_what_is_stated_is_edited(planted: list[LabelledDialogue]) -> None:
    for row in planted:
        before, after = original(row).turns, row.dialogue.turns
        assert [t.role for t in before] == [t.role for t in after]
        changed = {
            i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b
        }
        users = {i for i in changed if before[i].role == "user"}
        if about(row)["issue"] == "lacks_empathy":
            assert users == {i - 1 for i in row.extra["planted"]["turns"]}
            assert all(after[i].content.startswith(before[i].content) for i in users)
        else:
            assert not users


def test_twins_differ_in_the_planted_turns_and_nowhere_else(
    planted: list[LabelledDialogue],
):
    for faulty, innocent in pairs(planted):
        turns = zip(faulty.dialogue.turns, innocent.dialogue.turns, strict=True)
        differ = [i for i, (a, b) in enumerate(turns) if a != b]
        assert differ == about(faulty)["turns"], faulty.id
        assert set(differ) <= set(faulty.dialogue.assistant_turns)


@pytest.mark.parametrize(
    ("lang", "issue", "strength"), list(product(LANGUAGES, ISSUES, STRENGTHS))
)
def test_every_issue_can_be_planted_in_every_language(
    lang: str, issue: str, strength: int
) -> None:
    for n in range(4):  # raises where it cannot
        one(conversation(lang, n).dialogue, issue, strength, seed=n)


def test_the_set_is_the_same_for_any_order_of_the_input() -> None:
    one_way = [row.to_record() for row in make_issue_rows(ROWS, seed=0, per_issue=9)]
    other_way = [
        row.to_record() for row in make_issue_rows(ROWS[::-1], seed=0, per_issue=9)
    ]
    assert one_way == other_way
    other_seed = [row.to_record() for row in make_issue_rows(ROWS, seed=1, per_issue=9)]
    assert one_way != other_seed


def _texts(entry: object) -> list[str]:
    if isinstance(entry, dict):
        return [str(value) for value in entry.values()]
    parts = entry if isinstance(entry, list) else [entry]
    return [text for part in parts for text in sound_and_faulty(str(part))]


_TABLES = ("facts", "everyday", "unsafe", "neutral", "off_topic", "feelings", "replies")


@pytest.mark.parametrize("table", [*_TABLES, "contradictions", "forgetting"])
def test_no_sentence_stands_in_two_splits(table: str) -> None:
    for lang in LANGUAGES:
        homes = defaultdict(set)
        for split in SPLITS:
            for entry in sentence_table_entries(table, lang, split):
                for text in _texts(entry):
                    homes[text].add(split)
        assert all(len(splits) == 1 for splits in homes.values()), lang
        assert set().union(*homes.values()) == set(SPLITS), lang


@pytest.mark.parametrize("issue", ISSUES)
def test_length_does_not_tell_planted_from_innocent(
    issue: str, planted: list[LabelledDialogue]
):
    rows = [row for row in planted if about(row)["issue"] == issue]
    labels = [row.labels[issue][0] for row in rows]
    change = [_length(row.dialogue) - _length(original(row)) for row in rows]
    assert 0.35 <= roc_auc_score(labels, change) <= 0.65


def _length(dialogue: Dialogue) -> int:
    return sum(len(turn.content) for turn in dialogue.turns)


def test_the_command_writes_a_file_that_reads_back(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl.gz"
    write_records(source, ROWS)
    options = ["--issues", "unsafe", "--issues", "nonfactual", "--per-issue", "4"]
    app = typer.Typer()
    app.command()(plant)
    done = CliRunner().invoke(app, [str(source), "--out", str(out), *options])
    assert done.exit_code == 0 and "20 dialogues written" in done.output, done.output
    written = list(read_labelled(out))
    assert written == list(
        make_issue_rows(ROWS, seed=0, per_issue=4, issues=["unsafe", "nonfactual"])
    )
