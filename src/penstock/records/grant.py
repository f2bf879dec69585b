"""What policy grants a request. A plain class for speed, because every request has one."""

from penstock.records.account import AccountId, KeyId


class Grant:
    """The account that pays for a request, its key, and the account's settings."""

    def __init__(
        self,
        account: AccountId,
        key: KeyId,
        cache_salt: str,
        *,
        on_outage_refuse: bool = False,
        is_affinity_strict: bool = False,
        workflow: str = "",
    ) -> None:
        self.account = account
        self.key = key
        self.cache_salt = cache_salt
        self.on_outage_refuse = on_outage_refuse
        self.is_affinity_strict = is_affinity_strict
        # The only workflow that requests of the key may belong to; "" is any.
        self.workflow = workflow
