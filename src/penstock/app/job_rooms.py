"""Joins the rooms that keep jobs and sessions, the same way for gateways, keepers and control."""

from penstock.clock import Clock
from penstock.config import Config
from penstock.jobs.submission import DeskRooms, JobDesk
from penstock.queue import Batches, Queue
from penstock.sessions import (
    ConversationBook,
    ConversationTenures,
    ConversationUpkeep,
    ResponseBook,
    ResponseUpkeep,
    SessionBooks,
    TurnTenures,
)
from penstock.store import Objects, Store
from penstock.store.kept_values import KeptValues
from penstock.turns import BackgroundResponses


def desk_rooms(store: Store, objects: Objects, config: Config) -> DeskRooms:
    """Build the rooms that a process needs to submit, run or end jobs."""
    values = KeptValues(objects, config.serving)
    return DeskRooms(store, Queue(config.queue), Batches(), values)


def session_books(store: Store, values: KeptValues, config: Config, clock: Clock) -> SessionBooks:
    """Build what keeps responses and conversations."""
    conversations = ConversationBook(store, values, config.conversations, clock)
    return SessionBooks(
        responses=ResponseBook(store, values, config.responses, clock),
        conversations=conversations,
        tenures=ConversationTenures(store, conversations, config.conversations),
        turns=TurnTenures(store),
    )


def session_upkeep(
    store: Store, values: KeptValues, config: Config, clock: Clock
) -> tuple[ResponseUpkeep, ConversationUpkeep]:
    """Build what deletes old responses and conversations, or those of one account."""
    book = ConversationBook(store, values, config.conversations, clock)
    return (
        ResponseUpkeep(store, values, config.responses, clock),
        ConversationUpkeep(store, book, config.conversations),
    )


def background_responses(rooms: DeskRooms, config: Config, clock: Clock) -> BackgroundResponses:
    """Build the owner of the jobs that run background responses."""
    return BackgroundResponses(session_books(rooms.store, rooms.values, config, clock), clock)


def job_desk(rooms: DeskRooms, config: Config, clock: Clock) -> JobDesk:
    """Build a desk that notifies the owners of the jobs that it ends."""
    owners = background_responses(rooms, config, clock)
    return JobDesk(rooms, config.admission, clock, owners)
