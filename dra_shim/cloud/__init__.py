"""Cloud providers: attributes and parameters of this node's devices from cloud metadata.

names.py       the names that flags take, and the form of a URL
provider.py    the protocol: one device → attributes and parameters
gce.py, aws.py, azure.py, oke.py, alibaba.py, coreweave.py
               what each cloud's metadata says
metadata.py    requests to a metadata server
detect.py      which cloud this machine is in
directory.py   the facts of all devices, kept current
"""
