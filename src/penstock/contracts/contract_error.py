"""The only error of a contract's file."""

from penstock.records.file_fault import FileFault


class ContractError(FileFault):
    """A contract is wrong."""
