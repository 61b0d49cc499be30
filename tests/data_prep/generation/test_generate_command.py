"""``medal generate`` as a person types it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import build_config, load_config, shipped_names
from medal_judges.data_prep.generation.protocol import GenerateConfig, load_prompts
from medal_judges.data_prep.generation.run import WORDS, GenerationRun, estimate
from medal_judges.errors import ConfigError, DataError
from medal_judges.models.llm.protocol import Message, prompt_tokens_above
from medal_judges.reading.dialogues import read_labelled


@pytest.mark.parametrize("name", shipped_names("generate"))
def test_the_prompts_of_a_shipped_config_show_each_agent_what_it_has_to_see(
    name: str,
) -> None:
    config = load_config(GenerateConfig, name, folder="generate")
    assert set(load_prompts(config)) == {"first_turn", "later_turns", "check", "reply"}


def small(path: Path, folder: Path, out: Path) -> Path:
    """One context, one language, the tiny model of ``folder`` in all roles, its verdict held to a
    schema."""
    agent = {"name": "tiny", "llm": {"model": str(folder), "device": "cpu"}}
    shorter = {"max_tokens": 8, "temperature": 1.0}
    words = {"name": "w", "parts": {"user": "{{ dialogue }}"}}
    fit = {"name": "v", "parts": {"user": "{{ dialogue }}\n{{ message }}"}}
    settings = {
        "name": "t",
        "out": str(out),
        "languages": ["en"],
        "contexts": {"n": 2},
        "users": [agent],
        "user_judge": agent,
        "chatbots": [agent],
        "first_turn": {
            "prompt": {"name": "f", "parts": {"user": "{{ scene }}"}},
            "tries": 3,
            **shorter,
        },
        "later_turns": {"prompt": words, "tries": 3, **shorter},
        "check": {"prompt": fit, "enforce": True, "max_tokens": 96, "temperature": 1.0},
        "reply": {"prompt": {"name": "c", "parts": {"system": "Chat."}}, **shorter},
        "max_turns": 4,
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_a_local_model_in_all_roles(tmp_path: Path, tiny_llama: Path) -> None:
    out = tmp_path / "out"
    config = small(tmp_path / "c.yaml", tiny_llama, out)
    result = CliRunner().invoke(app, ["generate", "--config", str(config)])
    assert result.exit_code == 0, result.output
    rows = list(read_labelled(out / "dialogues.jsonl"))
    told = json.loads((out / "summary.json").read_text())
    assert (
        told["finished"] == len(rows) == 2 - told["first_messages_without_accepted_try"]
    )
    assert told["user_turns"]["unreadable_verdicts"] == 0
    assert rows and all(len(row.dialogue.turns) <= 4 and not row.labels for row in rows)
    first = (out / "dialogues.jsonl").read_bytes()
    CliRunner().invoke(app, ["generate", "--config", str(config), "--overwrite"])
    assert (out / "dialogues.jsonl").read_bytes() == first


def test_a_dry_run_counts_what_the_protocol_asks(
    tmp_path: Path, tiny_llama: Path
) -> None:
    out = tmp_path / "out"
    path = small(tmp_path / "c.yaml", tiny_llama, out)
    config = load_config(GenerateConfig, path)
    costs = estimate(config, acceptance=1, words={**WORDS, "reply": 3})
    # Every try accepted: 2 first messages, then reply, message, reply in each of 2 dialogues.
    assert [
        costs[f"{kind}:tiny"].requests for kind in ("user", "judge", "chatbot")
    ] == [4, 4, 4]
    first_reply = [
        Message("system", "Chat."),
        Message("user", " ".join(["words"] * 23)),
    ]
    later = [
        Message("assistant", "words words words"),
        Message("user", first_reply[1].content),
    ]
    read = 2 * prompt_tokens_above(first_reply) + 2 * prompt_tokens_above(
        first_reply + later
    )
    assert costs["chatbot:tiny"].input == read
    assert all(c.money == 0 for c in costs.values()) and not out.exists()
    nothing = estimate(config, acceptance=0)
    none = {agent: cost.requests for agent, cost in nothing.items()}
    assert none == {"user:tiny": 6, "judge:tiny": 6, "chatbot:tiny": 0}


def test_a_dry_run_of_the_papers_run_tells_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["generate", "--config", "configs/generate/medal.yaml", "--dry-run"]
    result = CliRunner().invoke(
        app,
        [
            *command,
            "contexts.scenes=embedded",
            "contexts.personas=embedded",
            "languages=[en]",
        ],
    )
    assert result.exit_code == 0, result.output
    assert "800 first messages, 6400 dialogues" in result.output
    assert "nothing was sent" in result.output


def test_a_dry_run_keeps_to_the_chatbots(tmp_path: Path, tiny_llama: Path) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    path = small(tmp_path / "c.yaml", tiny_llama, tmp_path / "out")
    settings = yaml.safe_load(path.read_text())
    paid = {"name": "paid", "llm": {"backend": "openai", "model": "gpt-4o-mini"}}
    settings["chatbots"].append(paid)
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(GenerateConfig, path)
    costs = estimate(config, acceptance=1)
    assert costs["chatbot:paid"].money and costs["chatbot:tiny"].money == 0
    result = CliRunner().invoke(
        app, ["generate", "--config", str(path), "--dry-run", "--chatbots", "paid"]
    )
    assert result.exit_code == 0, result.output
    assert "2 first messages, 2 dialogues" in result.output
    assert "chatbot:paid" in result.output and "chatbot:tiny" not in result.output
    with pytest.raises(ConfigError, match="no chatbot 'piad'"):
        estimate(config, chatbots=["piad"])


def test_settings_that_do_not_fit_are_named(tmp_path: Path, tiny_llama: Path) -> None:
    path = small(tmp_path / "c.yaml", tiny_llama, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"first_turn\.tries"):
        load_config(GenerateConfig, path, ["first_turn.tries=0"])
    with pytest.raises(ConfigError, match=r"a name is letters.*a--b"):
        load_config(GenerateConfig, path, ["user_judge.name=a--b"])
    for unquoted in ("4", "no", "4.5"):
        with pytest.raises(
            ConfigError, match=r"user_judge\.name: .*; write it in quotes"
        ):
            load_config(GenerateConfig, path, [f"user_judge.name={unquoted}"])
    with pytest.raises(
        ConfigError, match=r"languages\.0: .*got False\); write it in quotes"
    ):
        load_config(GenerateConfig, path, ["languages=[no]"])
    assert (
        load_config(GenerateConfig, path, ["user_judge.name=4o"]).user_judge.name
        == "4o"
    )
    with pytest.raises(
        DataError, match=r"ATOMIC10X.jsonl: no such file(.|\n)*scenes=embedded"
    ):
        GenerationRun(
            load_config(GenerateConfig, path, ["contexts.scenes=ATOMIC10X.jsonl"])
        )
    for name in ("-a", "a-"):  # x--a---b could be read in two ways
        with pytest.raises(ConfigError, match=rf"a name is letters.*'{name}'"):
            load_config(GenerateConfig, path, [f"user_judge.name={name}"])
    with pytest.raises(
        ConfigError, match="unknown key 'max_turn'; did you mean 'max_turns'"
    ):
        load_config(GenerateConfig, path, ["max_turn=3"])


@pytest.mark.parametrize(
    ("role", "parts", "message"),
    [
        (
            "first_turn",
            {"user": "Say hello."},
            r"first_turn.prompt: p shows no scene",
        ),
        (
            "later_turns",
            {"user": "{{ scene }}"},
            r"later_turns.prompt: p shows no dialog",
        ),
        ("check", {"system": "Fit?"}, r"check.prompt: p shows no dialogue"),
        ("check", {"user": "{{ dialogue }}"}, r"check.prompt: p shows no message"),
        ("reply", {"user": "Chat."}, r"reply.prompt: p has a part 'user'"),
        (
            "reply",
            {"system": "{{ scene }}"},
            r"prompt p: system: no value 'scene' here",
        ),
    ],
)
def test_a_prompt_without_what_its_agent_has_to_see_is_refused(
    tmp_path: Path, tiny_llama: Path, role: str, parts: dict[str, str], message: str
) -> None:
    path = small(tmp_path / "c.yaml", tiny_llama, tmp_path / "out")
    settings = yaml.safe_load(path.read_text())
    settings[role]["prompt"] = {"name": "p", "parts": parts}
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        GenerationRun(load_config(GenerateConfig, path))
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_dialogue_is_no_success(
    tmp_path: Path, serve: Callable[..., Any]
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    script = tmp_path / "never.py"
    script.write_text("def answer(body):\n    return 'No. It is not natural.'\n")
    llm = {"backend": "openai", "model": "m", "base_url": serve(script=str(script)).url}
    agent = {"name": "a", "llm": llm | {"cache": False}}
    settings = {
        "name": "t",
        "out": str(tmp_path / "out"),
        "languages": ["en"],
        "contexts": {"n": 1},
        "users": [agent],
        "user_judge": agent,
        "chatbots": [agent],
    }
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(settings))
    for again in range(2):  # also when the same command finds the run over
        result = CliRunner().invoke(app, ["generate", "--config", str(path)])
        assert result.exit_code == 3, (again, result.output)
        assert "no dialogue was generated" in result.output
        assert (
            "none of 10 first messages" in result.output
            and "rejected.jsonl" in result.output
        )


SCRIPT = Path(__file__).with_name("agents_script.py")


def test_a_local_chatbot_beside_served_ones(
    serve: Callable[..., Any], tmp_path: Path, tiny_llama: Path
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    first, second = serve(script=str(SCRIPT)), serve(script=str(SCRIPT))

    def served(name: str, server: Any, **more: Any) -> dict[str, Any]:
        llm = {
            "backend": "openai",
            "model": name,
            "base_url": server.url,
            "cache": False,
        }
        return {"name": name, "llm": {**llm, **more}}

    settings = {
        "name": "mixed",
        "out": str(tmp_path / "out"),
        "languages": ["en"],
        "contexts": {"n": 3},
        "users": [served("user-1", first)],
        # Kept answers and a cache of their own change nothing of what is asked.
        "user_judge": served("judge", second, cache=str(tmp_path / "cache")),
        "chatbots": [
            {"name": "tiny", "llm": {"model": str(tiny_llama), "device": "cpu"}},
            served("bot-1", second),
        ],
        "reply": {
            "prompt": "chatbot",
            "temperature": 0.9,
            "top_p": 0.95,
            "max_tokens": 6,
        },
    }
    run = GenerationRun(build_config(GenerateConfig, settings, where="test"))
    run.run()
    rows = list(read_labelled(tmp_path / "out" / "dialogues.jsonl"))
    assert len(rows) == 6 - 2 * run.counts.failed_openers > 0
    by_bot = {
        name: [r for r in rows if r.dialogue.chatbot == name]
        for name in ("tiny", "bot-1")
    }
    assert len(by_bot["tiny"]) == len(by_bot["bot-1"])
    replies = [t.content for r in by_bot["bot-1"] for t in r.dialogue.turns[1::2]]
    assert all(text.startswith("I am bot-1 and was shown") for text in replies)
    assert {r["body"]["model"] for r in first.told("requests")} == {"user-1"}
    assert {r["body"]["model"] for r in second.told("requests")} == {"judge", "bot-1"}
    assert run.counts.usage["chatbot:tiny"]["requests"] == sum(
        len(r.dialogue.assistant_turns) for r in by_bot["tiny"]
    )
