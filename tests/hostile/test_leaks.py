"""The short form: every spelling by one server, by what frameworks raise, and some slips."""

from collections.abc import Iterator

import pytest
from leaks import KEY, OPAQUE, SLIPS, Campaign
from spelt_keys import SPELLINGS, shown


@pytest.fixture
def campaign(tmp_path_factory: pytest.TempPathFactory, no_proxy: None) -> Iterator[Campaign]:
    campaign = Campaign(tmp_path_factory.mktemp("leaks"))
    yield campaign
    campaign.close()


def test_no_server_gets_the_key_into_a_file_or_the_output(campaign: Campaign) -> None:
    campaign.servers("evaluate", "a claim")
    campaign.servers("collect", "an error")
    assert campaign.faults == []


def test_no_exception_shows_the_key(campaign: Campaign) -> None:
    campaign.frameworks()
    campaign.raised("a bug", "base64 of Bearer")
    assert campaign.faults == []


def test_no_slip_shows_the_key(campaign: Campaign) -> None:
    api_key_env, header = (next(line for line in SLIPS if part in line) for part in ("smoke", "Authorization="))
    campaign.slip(api_key_env, OPAQUE)
    campaign.slip(header, KEY)
    assert campaign.faults == []


@pytest.mark.parametrize("name", SPELLINGS)
def test_what_searches_for_the_key_finds_every_spelling(name: str) -> None:
    assert shown(f"It is {SPELLINGS[name](KEY)}, they say.".encode(), KEY)
    assert not shown(b"It is not the key that they say, aGVsbG8gd29ybGQsIGFuZCBnb29kIG1vcm5pbmc=.", KEY)
