"""Verification of claimed NICs: measurements between pods of different nodes, with thresholds.

types.py        NICs, pods and results
kubectl.py      access to the cluster
documents.py    manifests of the pods, and their NICs by claims and slices
pods.py         creation and deletion of the pods
shells.py       shells in pods
outputs.py      parsers of the measuring programs
thresholds.py   limits of measured values
remedies.py     causes of failures, with remedies
node_checks.py  checks of one pod
pair_checks.py  checks between two NICs
collectives.py  all-gather and all-reduce over all pods
schedule.py     pairs that are measured together
measure.py      all measurements
report.py       the report as text and document
matrix.py       the report as an SVG matrix
"""
