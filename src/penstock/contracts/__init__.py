"""Contracts: what each workflow may use, do and cost, as files that operators apply as a set.

Guarantees: the same request under the same contract gets the same decision on every gateway; what
could never take effect is refused before it is applied; a set that cannot be used leaves the one
before in force. All but the book and the mirror is pure. It knows no HTTP, and changes no request:
`intake` does what is decided here.
"""
