"""Settings of the service: every one has a description, and a new service starts with some of them."""

import re
import tomllib

import sqlalchemy as sa

from dpmarket.campaign.people import DELTA_UNITS, EPSILON_UNITS
from dpmarket.campaign.schema import market
from dpmarket.web.folder import opened, prepare, written_settings
from dpmarket.web.settings import Settings


def test_every_setting_has_a_description():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_settings_that_a_new_service_starts_with_are_settings():
    given = [line[2:] for line in written_settings().splitlines() if re.match(r"# [a-z_]+ = .", line)]
    assert Settings(**tomllib.loads("\n".join(given))) == Settings()
    assert tomllib.loads(written_settings()) == {}


def test_a_service_limits_what_a_person_spends_over_all_campaigns(tmp_path):
    """Of epsilon and of delta, also where no campaign names a limit."""
    settings = Settings(folder=tmp_path, state=tmp_path / "state")
    with opened(settings, make=True) as there:
        prepare(there, settings)
        with there.look() as c:
            caps = c.scalar(sa.select(market.c.cap)), c.scalar(sa.select(market.c.delta_cap))
    assert caps == (5 * EPSILON_UNITS, int(1e-4 * DELTA_UNITS))
