"""A task of the harness from a local YAML, with a tiny model made on the spot."""

import json
import math
from pathlib import Path

import pytest

YAML = """
task: small_talk
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: generate_until
doc_to_text: "{%% for m in messages %%}{{m.role}}: {{m.content}}\\n{%% endfor %%}assistant:"
doc_to_target: ""
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
process_results: !function judge.process_results
metric_list:
  - {metric: overall, aggregation: !function judge.overall, higher_is_better: true}
  - {metric: coverage, aggregation: !function judge.coverage, higher_is_better: true}
"""
FUNCTIONS = """
from medal_judges.integrations.lm_eval import ChatMetric

metric = ChatMetric("length", dimensions=["overall"])
process_results, coverage, overall = metric.process_results, metric.coverage, metric.mean("overall")
"""


@pytest.mark.integrations("lm_eval")
def test_a_task_runs(tiny_llama: Path, tmp_path: Path) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    said = [
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hello."},
    ]
    rows = [
        {"messages": [*said, {"role": "user", "content": f"And {n}?"}]}
        for n in range(4)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "small_talk.yaml").write_text(YAML % data)
    (tmp_path / "judge.py").write_text(FUNCTIONS)
    got = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(tiny_llama), "dtype": "float32"},
        tasks=["small_talk"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        device="cpu",
        batch_size=2,
    )
    figures = got["results"]["small_talk"]
    chats = [json.loads(sample["overall"]) for sample in got["samples"]["small_talk"]]
    assert [m["role"] for m in chats[0]["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    answers = [chat["messages"][-1]["content"] for chat in chats]
    scored = sum(bool(answer.strip()) for answer in answers) / 4
    assert figures["coverage,none"] == scored
    value = figures["overall,none"]
    assert 1 <= value <= 5 if scored else math.isnan(value)
