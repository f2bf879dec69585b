"""The name under which the package is installed, which is not the name that code imports.

`penstock` on PyPI is another project. Until this name is published, messages and pages name wheel
files and other projects' packages, never a name that somebody else may register.
"""

from typing import Final

DISTRIBUTION: Final = "penstock-inference"
