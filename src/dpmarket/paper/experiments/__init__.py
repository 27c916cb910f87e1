"""The paper's figures and claims: each experiment computes a table, figures draw it, claims judge it.

:mod:`~dpmarket.paper.experiments.catalogue` lists the experiments,
:mod:`~dpmarket.paper.experiments.running` runs them into a folder, :mod:`~dpmarket.paper.claims` holds the
paper's statements with the rules that decide about them, and
:mod:`~dpmarket.paper.experiments.results_page` writes down what was found.
"""
