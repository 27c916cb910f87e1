"""The paper's figures and claims: each experiment computes a table, figures draw it, claims judge it."""
