"""What a run on many machines takes, by arithmetic that can be done in the head."""

from framebench.cluster.table import make_tables
from framebench.suite.case import Case
from tests.fake_records import make_blocks

TORCH = Case.from_id("transformer/torch/train/fp32/b4/cpu")
JAX = [Case("transformer", "jax", "train", strategy, 4) for strategy in ("fp32", "checkpoint")]


def test_hours_follow_from_minutes_per_block():
    timed = []
    untimed = []
    for record in make_blocks([(case, [[1.0], [1.0]]) for case in (TORCH, *JAX)], machine="m"):
        record = record.model_copy(update={"spent_s": {"total": 40.0}})
        other_block = record.turns_taken.model_copy(update={"block": "beside other work"})
        timed.append(record)
        untimed.append(record.model_copy(update={"step_s": [], "turns": other_block}))
    (table,) = make_tables([*timed, *untimed])
    # three processes of 40 s for two cases of JAX: 10,000 cases, five times, are 25,000 units of 2
    # minutes
    row = "| 2 | 2.0 | 2.0 | 2.0 | 25,000 | 8.3 |"
    assert f"| jax {row}" in table.markdown()
    assert f"| all {row}" in table.markdown()
    assert "| torch |" not in table.markdown()


def test_no_table_is_made_without_blocks():
    assert not list(make_tables([]))
