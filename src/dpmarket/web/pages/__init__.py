"""The pages that people see: server-rendered, complete without a script."""
