"""Penstock: serverless inference for agents, on your own GPUs.

Open `serving/request_path.py` first: it is the path of one request.
"""

from typing import Final

# The name under which the package is installed, which is not the name that code imports: `penstock`
# on PyPI is another project. Until this name is published, messages and pages name wheel files and
# other projects' packages, never a name that somebody else may register.
DISTRIBUTION: Final = "penstock-inference"
