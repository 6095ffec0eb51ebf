"""Verification of the network that pods get by claims: measurements between nodes, judged by bars.

`pods` creates the pods, `node_checks` and `pair_checks` measure, `bars` judges, and `report`
and `matrix` show the result.
"""
