from pathlib import Path

import pytest

from experiments.run_arguments import read_arguments
from rag_zeval.errors import InputError

USAGE = "usage: RUN [key=value ...]\n\nout_dir=FOLDER   where\nrollouts=val     which\n"


def test_folders_and_settings_may_come_in_any_order():
    found = read_arguments(["runs/a", "out_dir=pages/x=1", "runs/b=2"], USAGE)
    assert found == ([Path("runs/a"), Path("runs/b=2")], {"out_dir": "pages/x=1"})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rolouts=val", "unknown key 'rolouts' (did you mean 'rollouts'?)"),
        ("--rollouts=val", "unknown option '--rollouts=val'; write a setting as key=value, without dashes"),
        ("out_dir=", "'out_dir=' has no value"),
    ],
)
def test_a_word_that_is_no_setting_is_refused(word, message):
    with pytest.raises(InputError) as error:
        read_arguments(["runs/a", word], USAGE)
    assert str(error.value) == f"command line: {message}"
