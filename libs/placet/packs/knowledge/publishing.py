"""`create_publish_proposal` and `apply_publish_decision`: a draft becomes what everybody is answered from (A11)."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.knowledge.models import DocumentInfo, Publication
from placet.packs.knowledge.arguments import ApplyPublishDecision, CreatePublishProposal
from placet.packs.knowledge.differences import summarize
from placet.packs.knowledge.reader import Reader
from placet.packs.knowledge.reading import PARSE_TIMEOUT_S
from placet.packs.knowledge.results import Published
from placet.toolkit import (
    HandOver,
    Hooks,
    Preview,
    ResourceView,
    RollbackPlan,
    ToolContext,
    ToolResult,
    ToolSpec,
    Verification,
)

PROPOSE = "create_publish_proposal"
APPLY = "apply_publish_decision"
# Five seconds in all: a file of usual size has been read by then.
READING_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.5)
_PUBLISHABLE = frozenset({"draft", "archived"})

# The read-back sees the document whoever may still read it: the publishing took place.
_STANDS = text(
    "SELECT published_version, lock_version FROM knowledge.documents WHERE tenant = :tenant AND document_id = :id"
)


class CreatePublishProposalTool:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def spec(self) -> ToolSpec:
        """A read: it only finds out what would be published and hands that over; the next call is the write."""
        return ToolSpec(
            name=PROPOSE,
            title="Propose to publish a draft",
            description="Ask for the newest draft of a document to be published. Never started by a model.",
            args=CreatePublishProposal,
            result=Published,
            handler=self.handle,
            sensitivity=Sensitivity.READ,
            risk=Risk.HIGH,
            hooks=Hooks(resource=self.resource),
        )

    async def resource(self, ctx: ToolContext, args: CreatePublishProposal) -> ResourceView:
        return await self._reader.view(ctx.actor, args.document_id)

    async def handle(self, ctx: ToolContext, args: CreatePublishProposal) -> HandOver:
        shown = await self._reader.document(ctx.actor, args.document_id)
        newest = await self._read_to_the_end(ctx, args.document_id, shown.latest_version)
        if newest.status != "draft":
            raise PlacetError(ErrorCode.CONFLICT, "The document has no draft to publish.", status=newest.status)
        _check_ready(newest)
        arguments = {
            "document_id": newest.document_id,
            "version": newest.version,
            "lock_version": newest.lock_version,
        }
        return HandOver(APPLY, arguments)

    async def _read_to_the_end(self, ctx: ToolContext, document_id: str, version: int) -> DocumentInfo:
        """The version, once its file has been read, or as it is after a moment: who has just uploaded may propose."""
        newest = await self._reader.document(ctx.actor, document_id, version)
        for pause in READING_PAUSES_S:
            if newest.reading is None or newest.reading.state in ("ready", "failed"):
                break
            await asyncio.sleep(pause)
            newest = await self._reader.document(ctx.actor, document_id, version)
        return newest


class ApplyPublishDecisionTool:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=APPLY,
            title="Publish a document version",
            description="Make a version of a document the published one. Never started by a model.",
            args=ApplyPublishDecision,
            result=Published,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.VISIBLE_TO_OTHERS,
            risk=Risk.HIGH,
            timeout_s=PARSE_TIMEOUT_S,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            undo_tool=APPLY,
            hooks=Hooks(
                resource=self.resource,
                validate=self.validate,
                preview=self.preview,
                verify=self.verify,
                lookup=self.lookup,
                compensate=self.compensate,
            ),
        )

    async def resource(self, ctx: ToolContext, args: ApplyPublishDecision) -> ResourceView:
        return await self._reader.view(ctx.actor, args.document_id, args.version)

    async def validate(self, ctx: ToolContext, args: ApplyPublishDecision, resource: ResourceView | None) -> None:
        await self._publishable(ctx, args)

    async def preview(self, ctx: ToolContext, args: ApplyPublishDecision, resource: ResourceView | None) -> Preview:
        info = await self._publishable(ctx, args)
        before, after = await self._texts(ctx, info)
        difference = await asyncio.to_thread(summarize, before, after)
        replaced = "" if info.published_version is None else f" instead of version {info.published_version}"
        renamed = info.version_title != info.title
        title = (Change(field="title", before=info.title, after=info.version_title),) if renamed else ()
        return Preview(
            summary=f"Publish version {info.version} of “{info.title}”{replaced}: {difference.headline}.",
            changes=(
                Change(field="published_version", before=info.published_version, after=info.version),
                *title,
                Change(field="text", before=None, after=difference.text),
            ),
            touched=(info.document_id,),
            blast_radius=(
                f"Everybody who may read knowledge base {info.base_id} is answered from version {info.version}.",
                *_archived(info),
            ),
            rollback=_rollback(info.document_id, info.published_version, args.lock_version + 1),
        )

    async def handle(self, ctx: ToolContext, args: ApplyPublishDecision) -> ToolResult:
        try:
            info = await self._publishable(ctx, args)
        except PlacetError:
            # Once done it stays done: the document moved because of this key, perhaps by a caller at the same moment.
            done = await self.lookup(ctx, args)
            if done is None:
                raise
            return done
        publication = await self._reader.store.publish(
            ctx.tenant,
            info.document_id,
            args.version,
            lock_version=args.lock_version,
            actor=ctx.actor.id,
            idempotency_key=_key(ctx),
        )
        return _result(publication)

    async def lookup(self, ctx: ToolContext, args: ApplyPublishDecision) -> ToolResult | None:
        publication = await self._reader.store.lookup_publish(ctx.tenant, _key(ctx))
        return None if publication is None else _result(publication)

    async def verify(self, ctx: ToolContext, args: ApplyPublishDecision, result: ToolResult) -> Verification:
        """The publication under this key, and the document itself as long as nobody has changed it since."""
        publication = await self._reader.store.lookup_publish(ctx.tenant, _key(ctx))
        if publication is None:
            return Verification(ok=False, observed={"publication": None})
        async with self._reader.database.transaction(read_only=True) as connection:
            row = (await connection.execute(_STANDS, {"tenant": ctx.tenant, "id": args.document_id})).one()
        same = (publication.document_id, publication.version) == (args.document_id, args.version)
        newest = row.lock_version == publication.lock_version
        ok = same and (row.published_version == args.version if newest else row.lock_version > args.lock_version)
        observed = {"published_version": row.published_version, "lock_version": row.lock_version}
        return Verification(ok=ok, observed=observed)

    async def compensate(self, ctx: ToolContext, args: ApplyPublishDecision, result: ToolResult) -> RollbackPlan | None:
        return _rollback(args.document_id, result.data["previous_version"], result.data["lock_version"])

    async def _publishable(self, ctx: ToolContext, args: ApplyPublishDecision) -> DocumentInfo:
        """The version to publish. Raises `not_found`, or `conflict` when the document moved or is published so."""
        info = await self._reader.document(ctx.actor, args.document_id, args.version)
        if info.lock_version != args.lock_version:
            message = "The document changed meanwhile."
            raise PlacetError(ErrorCode.CONFLICT, message, expected=args.lock_version, found=info.lock_version)
        if info.status not in _PUBLISHABLE:
            raise PlacetError(ErrorCode.CONFLICT, f"Version {info.version} is {info.status}.", status=info.status)
        if info.status == "draft" and info.version != info.latest_version:
            message = "A newer version of the document was taken in meanwhile."
            raise PlacetError(ErrorCode.CONFLICT, message, expected=info.version, found=info.latest_version)
        if info.version == info.latest_version:
            _check_ready(info)
        return info

    async def _texts(self, ctx: ToolContext, info: DocumentInfo) -> tuple[str, str]:
        scope = await self._reader.scope(ctx.actor)
        after = (await self._reader.store.read_version(scope, info.document_id, info.version)).content
        if info.published_version is None:
            return "", after
        before = await self._reader.store.read_version(scope, info.document_id, info.published_version)
        return before.content, after


def _check_ready(newest: DocumentInfo) -> None:
    """Raises `conflict` unless the file of the newest version has been read."""
    reading = newest.reading
    if reading is not None and reading.state != "ready":
        message = f"The file of version {newest.version} has not been read: {reading.reason or reading.state}."
        raise PlacetError(ErrorCode.CONFLICT, message, state=reading.state, reason=reading.reason)


def _key(ctx: ToolContext) -> str:
    if not ctx.idempotency_key:
        raise PlacetError(ErrorCode.INTERNAL, "A write came without an idempotency key.")
    return ctx.idempotency_key


def _result(publication: Publication) -> ToolResult:
    published = Published(
        document_id=publication.document_id,
        version=publication.version,
        previous_version=publication.previous_version,
        lock_version=publication.lock_version,
    )
    return ToolResult(published.model_dump(mode="json"))


def _archived(info: DocumentInfo) -> tuple[str, ...]:
    if info.published_version is None:
        return ()
    return (f"Version {info.published_version} is archived and no longer found by searches.",)


def _rollback(document_id: str, previous: int | None, lock_version: int) -> RollbackPlan | None:
    """Publish the former version again. A first publishing has nothing to go back to."""
    if previous is None:
        return None
    return RollbackPlan(
        tool=APPLY, arguments={"document_id": document_id, "version": previous, "lock_version": lock_version}
    )
