"""kubectl plugin: questions to a whole cluster, from a laptop or from saved files.

cli.py         the table of subcommands
source.py      objects of the cluster: by kubectl, or from the files of a directory
cluster.py     devices, their holders and places, read from those objects
pairs.py       GPU and NIC pairs that are left on a node
picture.py     the topology of a node as an SVG picture
redaction.py   objects without what may be secret, for the support archive

The other modules are the subcommands, named as such. A new one is a module with EXAMPLES, add_flags
and main, and a row of the table.
"""
