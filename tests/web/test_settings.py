"""Settings of the service: every one has a description, and a new service starts with some of them."""

import re

from dpmarket.web.folder import _WRITTEN
from dpmarket.web.settings import Settings


def test_every_setting_has_a_description():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_settings_that_a_new_service_starts_with_are_settings():
    named = re.findall(r"^(?:# )?([a-z_]+) = ", _WRITTEN, re.MULTILINE)
    assert set(named) <= set(Settings.model_fields)
    assert len(named) >= 12
