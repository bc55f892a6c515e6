from __future__ import annotations

from hpcmod.runs.values.nodes.answers import AnswerLines, TaskAnswer

OUTPUT = """\
hpcmod 10 1/1 {"task": 10}|
hpcmod 2 2/2 2}|
srun: error: nid003 is down
hpcmod 2 1/2 {"task": |
hpcmod 3 1/2 {"task": |
hpcmod 4 1/1 [1]|
"""


def test_answers_are_put_together_by_rank_and_other_lines_are_messages() -> None:
    lines = AnswerLines()
    for number, line in enumerate(OUTPUT.splitlines()):
        lines.add(line, float(number))
    assert list(lines.answers()) == [TaskAnswer({"task": 2}, 3.0), TaskAnswer({"task": 10}, 0.0)]
    assert lines.messages == ["srun: error: nid003 is down"]
