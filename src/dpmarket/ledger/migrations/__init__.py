"""How the tables of older ledgers become those of :mod:`dpmarket.ledger.tables`, step by step."""
