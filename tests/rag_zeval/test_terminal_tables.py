"""Tables in a terminal: however narrow it is, every name can be read to its end."""

import re

import pytest

from rag_zeval.terminal_tables import print_framed


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_name_is_cut_in_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    systems = [f"{'the-long-name-of-a-system' * 3}-{at}" for at in (1, 2)]
    tags = [f"Fragen zur Rückerstattung im Ausland ({at})" for at in ("neu", "alt")]
    heads = ("system", "slice", "[bold]mean", "scored")
    print_framed(heads, [(*names, "0.500 [0.400, 0.600]", "12 of 12") for names in zip(systems, tags, strict=True)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    pieces = [found[1:-1] for line in lines if len(found := re.split("[│┃]", line)) > 1]
    read = ["".join("".join(line[at] for line in pieces).split()) for at in range(len(heads))]
    for at, text in [(0, systems[0]), (0, systems[1]), (1, tags[0]), (1, tags[1]), (2, "[bold]mean"), (3, "12 of 12")]:
        assert text.replace(" ", "") in read[at], text
