"""The paper's methods as they are printed, to compare with."""
