"""Cloud providers: attributes and parameters of this node's devices from cloud metadata.

names.py       names of clouds in flags, and URLs of webhooks
provider.py    the protocol of a provider
gce.py, aws.py, azure.py, oke.py, alibaba.py, coreweave.py
               metadata of each cloud
webhook.py     provider of the administrator, over HTTP
metadata.py    client of a metadata server
detect.py      detection of the cloud
directory.py   cache of the facts of all devices, refreshed in the background
"""
