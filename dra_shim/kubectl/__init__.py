"""kubectl plugin: commands for a whole cluster, live or from saved files.

cli.py         table of commands
source.py      objects of the cluster: by kubectl, or from the files of a directory
cluster.py     devices with their owners and locations, from those objects
pairs.py       free pairs of GPU and NIC on a node
picture.py     topology of a node as an SVG picture
redaction.py   objects without secrets, for the support archive

The other modules are the commands. A command is a module with EXAMPLES, add_flags and main, and a
row in the table.
"""
