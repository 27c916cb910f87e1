"""Public rules of a campaign, and everything that follows from them alone: no database, no report, no record.

* :mod:`.rules_file` reads and checks the TOML file; :mod:`.template` writes one.
* :mod:`.columns` and :mod:`.questions` say what a record is; :mod:`.encoding` writes records in one width.
* :mod:`.pricing` and :mod:`.decision` say what is offered; :mod:`.released` what is published.
"""
