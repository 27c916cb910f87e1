"""Campaigns: public rules (:mod:`dpmarket.campaign.rules`), of which everything else is a function."""
