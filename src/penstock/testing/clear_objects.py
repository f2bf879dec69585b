"""Objects of a cell without a key, for tests that have no database."""

from penstock.store import Objects, Sealing, Store, StoreSettings


def clear_objects(settings: StoreSettings) -> Objects:
    """Return objects that keep content in clear, and so need no data keys from Postgres."""
    nowhere = Store(StoreSettings(dsn="host=127.0.0.1"))
    return Objects(settings, Sealing(nowhere, StoreSettings()))
