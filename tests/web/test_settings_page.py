"""The page of settings is made from the settings, and says all about each."""

import re
from pathlib import Path

from dpmarket.web.settings import Settings
from dpmarket.web.settings_page import settings_page
from dpmarket.web.setup import _WRITTEN


def test_the_page_of_settings_is_made_from_the_settings():
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    command = "python -m dpmarket.web.settings_page > docs/reference/settings.md"
    assert page.read_text() == settings_page(), command


def test_the_page_of_settings_says_all_that_is_expected():
    rows = {line.split("`")[1]: line for line in settings_page().splitlines() if line.startswith("| `")}
    assert set(rows) == set(Settings.model_fields) | {"DPMARKET_STATE", "NUMBA_CACHE_DIR"}
    assert "| a whole number, at least 0, at most 65535 | `8000` | On which port" in rows["port"]
    assert "| `paymaster` or `buyer` | `paymaster` |" in rows["funding"]
    assert "| true or false | `false` |" in rows["behind_proxy"]
    assert "| a path | left out |" in rows["master_key_file"]


def test_the_settings_that_a_new_service_starts_with_are_settings():
    named = re.findall(r"^(?:# )?([a-z_]+) = ", _WRITTEN, re.MULTILINE)
    assert set(named) <= set(Settings.model_fields)
    assert len(named) >= 12
