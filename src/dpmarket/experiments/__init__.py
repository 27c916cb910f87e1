"""The paper's figures and claims: each experiment computes a table, figures draw it, claims judge it.

:mod:`~dpmarket.experiments.catalogue` lists the experiments, :mod:`~dpmarket.experiments.running` runs them
into a folder, :mod:`~dpmarket.experiments.claims` holds the paper's statements with the rules that decide
about them, and :mod:`~dpmarket.experiments.results_page` writes down what was found.
"""
