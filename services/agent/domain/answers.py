"""What the program says itself, in both languages: about effects, refusals and limits it never lets a model speak."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.errors import ErrorCode, NextHop
from placet.contracts.runs import RunFinish
from services.agent.domain.calls import Call, CallStatus
from services.agent.domain.language import Language, pick
from services.agent.domain.outcomes import next_hop
from services.agent.domain.receipts import meant, receipt


def statements(calls: Sequence[Call], language: Language) -> list[str]:
    """One true sentence or two about every call that was to change something, and about look-ups that failed."""
    told = (statement(call, language) for call in calls if call.repeats is None)
    return list(dict.fromkeys(said for said in told if said))


def statement(call: Call, language: Language) -> str:
    """Empty for a successful read: that is answered from its result."""
    if call.status is CallStatus.ERROR:
        return _after_error(call, language)
    if call.status is CallStatus.OK:
        return "" if call.reads else receipt(call, language) + _edited(call, language)
    texts = _ENDS.get(call.status)
    return _filled(texts, call, language) if texts else ""


def _filled(texts: tuple[str, str], call: Call, language: Language) -> str:
    names = pick(language, "、", ", ").join(call.decided_by)
    why = pick(language, f"理由：{call.note}", f" Reason: {call.note}") if call.note else ""
    return pick(language, *texts).format(
        what=meant(call, language),
        who=f" {names} " if names else "审批人",
        by=f" by {names}" if names else "",
        note=call.note or "",
        why=why,
    )


_SUPERSEDED = (
    "{what}没有执行：提出之后相关数据已发生变化。如仍需要，请重新提出。",
    "{what} was not executed: the data it rested on has changed since. Ask again if it is still wanted.",
)
_UNKNOWN = (
    "{what}的结果尚不明确，系统不会重复执行，将由人员核实。",
    "{what} may or may not have taken effect. It is not repeated; a person will settle it.",
)
_UNAVAILABLE = (
    "{what}暂时无法完成：所需的服务不可用，请稍后再试。",
    "{what} could not be completed: a service it needs is not available. Please try again later.",
)
_UNANSWERED = (
    "{what}没有及时得到答复，可能已经执行，也可能没有。请先核对，再决定是否重新提出。",
    "No answer came in time to this: {what}. It may have taken effect or not; look before asking again.",
)
_ENDS: dict[CallStatus, tuple[str, str]] = {
    CallStatus.RESPONDED: (
        "{what}没有执行。{who}答复：{note}",
        "{what} was not carried out. The answer{by}: {note}",
    ),
    CallStatus.REJECTED: (
        "{what}被{who}拒绝，没有执行任何操作。{why}",
        "{what} was rejected{by}; nothing was executed.{why}",
    ),
    CallStatus.EXPIRED: (
        "{what}在有效期内没有得到批准，已过期，没有执行任何操作。",
        "{what} was not approved in time and has expired; nothing was executed.",
    ),
    CallStatus.CANCELLED: (
        "{what}已撤回，没有执行任何操作。",
        "{what} was withdrawn; nothing was executed.",
    ),
    CallStatus.SUPERSEDED: _SUPERSEDED,
    CallStatus.DENIED: (
        "{what}在执行前被拒绝，没有执行任何操作。",
        "{what} was denied before it ran; nothing was executed.",
    ),
    CallStatus.FAILED: ("{what}执行失败，没有生效。", "{what} failed; it did not take effect."),
    CallStatus.VERIFICATION_FAILED: (
        "{what}已执行，但回读核对不一致，需要人工检查。",
        "{what} was executed, but reading it back did not match; a person must look at it.",
    ),
    CallStatus.UNKNOWN: _UNKNOWN,
}


def _after_error(call: Call, language: Language) -> str:
    hop = next_hop(call)
    if hop is NextHop.ASK_BACK:
        target = _target(call, language)
        return pick(language, f"没有找到{target}。", f"{target} was not found.")
    if hop is NextHop.SAME_NODE:
        return _invalid(call, meant(call, language), language)
    if call.code == ErrorCode.TIMEOUT.value and not call.reads:
        return _filled(_UNANSWERED, call, language)
    texts = (
        {NextHop.TELL_USER: _SUPERSEDED, NextHop.PARK: _UNKNOWN, NextHop.DEGRADE: _UNAVAILABLE}.get(hop)
        if hop
        else None
    )
    return _filled(texts, call, language) if texts else ""


def _invalid(call: Call, what: str, language: Language) -> str:
    problems = "; ".join(f"{problem['field']}: {problem['problem']}" for problem in call.problems)
    why = problems or call.note or ""
    return pick(
        language,
        f"{what}没有执行：参数不符合要求（{why}）。",
        f"{what} was not executed: the arguments do not fit ({why}).",
    )


_TARGETS = (
    ("order_id", "订单", "Order"),
    ("document_id", "文档", "Document"),
    ("customer_id", "客户", "Customer"),
)


def _target(call: Call, language: Language) -> str:
    for name, zh, en in (
        ("order_id", "订单", "Order"),
        ("document_id", "文档", "Document"),
        ("customer_id", "客户", "Customer"),
    ):
        if call.args.get(name):
            return pick(language, f"{zh} {call.args[name]}", f"{en} {call.args[name]}")
    return pick(language, "所请求的内容", "What was asked for")


def _edited(call: Call, language: Language) -> str:
    if call.ran is None:
        return ""
    changed = {name: value for name, value in call.ran.items() if call.args.get(name) != value}
    listed = pick(language, "，", ", ").join(
        f"{name} {call.args.get(name)} → {value}" for name, value in changed.items()
    )
    return pick(language, f"执行前审批人作了修改：{listed}。", f" The approver changed it before it ran: {listed}.")


def ending(finish: RunFinish, language: Language) -> str:
    """What is said of an end that no single call explains."""
    if finish is RunFinish.REFUSED:
        return pick(
            language, "这个请求不被允许，我不能执行。", "This request is not permitted, so I cannot carry it out."
        )
    if finish is RunFinish.LIMIT_REACHED:
        return pick(
            language,
            "这次运行已达到上限，以下是目前已知的内容。",
            "This run has reached its limits. This is what is known so far.",
        )
    if finish is RunFinish.CANCELLED:
        return pick(language, "这次运行已取消。", "This run was cancelled.")
    return pick(language, "出了问题，这个请求没有完成。", "Something went wrong; this request was not completed.")


def consent(language: Language) -> str:
    """To whoever confirms in the chat (A6)."""
    return pick(
        language,
        "聊天中的确认不构成批准，没有执行任何操作。请由有权审批的人员在提案页面上作出决定。",
        "A confirmation in the chat is not a decision, and nothing was executed. "
        "A decision is made on the proposal page by a person who is eligible to decide.",
    )


def nothing_found(language: Language) -> str:
    return pick(
        language,
        "在您可以阅读的资料中没有找到相关内容。",
        "Nothing about this was found in the documents you may read.",
    )


def no_tool(language: Language) -> str:
    return pick(language, "我没有可用于此操作的工具。", "I have no tool that could do this.")


def nothing_done(language: Language) -> str:
    """Behind the words of a model that was asked to act and proposed nothing."""
    return pick(language, "（没有执行任何操作。）", "(Nothing was executed.)")


def model_away(language: Language) -> str:
    return pick(
        language,
        "语言模型暂时不可用，以下内容直接摘自资料。",
        "The language model is not available; this is taken from the documents as it stands.",
    )


def sources_away(language: Language) -> str:
    """Of what was found, when nobody can tell whether its reader may still read it."""
    return pick(
        language,
        "暂时无法核对这个回答的资料来源，请稍后再问。",
        "The sources of this answer cannot be checked at the moment. Please ask again later.",
    )


def given_up(language: Language) -> str:
    """Of a run whose program has changed while it waited."""
    return pick(
        language,
        "系统在此期间已更新，这次运行不再继续。如仍需要，请重新提出。",
        "The system has been updated meanwhile, and this run does not go on. Ask again if more is wanted.",
    )


def still_decided(language: Language) -> str:
    """After a cancel that came too late for a proposal."""
    return pick(
        language,
        "其中一项提案已经有了决定，不能撤回；已批准的操作仍会完成。",
        "One proposal had been decided already and could not be withdrawn; approved work is still completed.",
    )
