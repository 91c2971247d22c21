"""What an error, or a decision, makes of a call, of its run, and of what a model and a person are told (T4, A3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.contracts.errors import ErrorCode, NextHop, PlacetError
from placet.contracts.proposals import FinishReason
from placet.contracts.runs import RunFinish
from services.agent.domain import answers
from services.agent.domain.calls import CallStatus
from services.agent.domain.outcomes import decided, decision_of, decision_word, failed, next_hop, run_finish
from services.agent.domain.told import told_of_call
from tests.unit.agent_values import REFUND, SEARCH, completed_event, ended


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("code", "hop", "finish"),
    [
        (ErrorCode.TOOL_NOT_ALLOWED, NextHop.SAFE_REFUSAL, RunFinish.REFUSED),
        (ErrorCode.PERMISSION_DENIED, NextHop.SAFE_REFUSAL, RunFinish.REFUSED),
        (ErrorCode.INVALID_ARGUMENTS, NextHop.SAME_NODE, RunFinish.FAILED),
        (ErrorCode.NOT_FOUND, NextHop.ASK_BACK, RunFinish.FAILED),
        (ErrorCode.CONFLICT, NextHop.TELL_USER, RunFinish.SUPERSEDED),
        (ErrorCode.TIMEOUT, NextHop.DEGRADE, RunFinish.FAILED),
        (ErrorCode.RATE_LIMITED, NextHop.DEGRADE, RunFinish.FAILED),
        (ErrorCode.DEPENDENCY_UNAVAILABLE, NextHop.DEGRADE, RunFinish.FAILED),
        (ErrorCode.POLICY_UNAVAILABLE, NextHop.DEGRADE, RunFinish.FAILED),
        (ErrorCode.LIMIT_REACHED, NextHop.FINISH, RunFinish.LIMIT_REACHED),
        (ErrorCode.OUTCOME_UNKNOWN, NextHop.PARK, RunFinish.FAILED),
    ],
)
def test_error_of_each_code_sends_the_run_to_its_hop_and_end(code: ErrorCode, hop: NextHop, finish: RunFinish) -> None:
    call = failed(REFUND, PlacetError(code, "why"))
    assert next_hop(call) is hop
    assert run_finish([call]) is finish


@pytest.mark.spec("T4")
def test_denial_told_to_a_model_says_neither_code_nor_reason() -> None:
    call = failed(REFUND, PlacetError(ErrorCode.PERMISSION_DENIED, "SECRET RULE 17", rule="SECRET"))
    assert "SECRET" not in str(call)
    assert told_of_call(call, None) == {"status": "error", "asked": REFUND.args, "code": "refused"}


@pytest.mark.spec("T4")
def test_invalid_arguments_told_to_a_model_name_the_fields() -> None:
    error = PlacetError(ErrorCode.INVALID_ARGUMENTS, "Bad.", errors=[{"field": "amount", "problem": "too much"}])
    told = told_of_call(failed(REFUND, error), None)
    assert told["code"] == "invalid_arguments"
    assert told["problems"] == [{"field": "amount", "problem": "too much"}]


def test_not_found_of_a_look_up_is_an_answer_and_of_an_action_a_failure() -> None:
    missing = PlacetError(ErrorCode.NOT_FOUND, "No such resource.")
    assert run_finish([failed(SEARCH, missing)]) is RunFinish.SUCCESS
    assert run_finish([failed(REFUND, missing)]) is RunFinish.FAILED


def test_error_that_a_later_call_made_up_for_does_not_decide_the_end() -> None:
    first = failed(REFUND, PlacetError(ErrorCode.INVALID_ARGUMENTS, "Bad."))
    assert run_finish([first, replace(REFUND, call_id="call-2", step=2, status=CallStatus.OK)]) is RunFinish.SUCCESS


def test_rejection_is_not_made_up_for_by_another_approval() -> None:
    approved = replace(ended(FinishReason.SUCCESS), call_id="call-2", step=2)
    assert run_finish([ended(FinishReason.REJECTED), approved]) is RunFinish.REJECTED


@pytest.mark.spec("A8", "U6")
@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        (FinishReason.SUCCESS, RunFinish.SUCCESS),
        (FinishReason.RESPONDED, RunFinish.SUCCESS),
        (FinishReason.REJECTED, RunFinish.REJECTED),
        (FinishReason.CANCELLED, RunFinish.CANCELLED),
        (FinishReason.EXPIRED, RunFinish.EXPIRED),
        (FinishReason.SUPERSEDED, RunFinish.SUPERSEDED),
        (FinishReason.DENIED, RunFinish.REFUSED),
        (FinishReason.FAILED, RunFinish.FAILED),
        (FinishReason.VERIFICATION_FAILED, RunFinish.FAILED),
        (FinishReason.UNKNOWN, RunFinish.FAILED),
    ],
)
def test_proposal_ended_for_each_reason_ends_the_run_and_is_told_in_both_languages(
    reason: FinishReason, finish: RunFinish
) -> None:
    call = ended(reason, outcome={"finish_reason": reason.value, "message": "because", "result": {"refund_id": "R-9"}})
    assert run_finish([call]) is finish
    english, chinese = answers.statement(call, "en"), answers.statement(call, "zh")
    assert "A1001" in english
    assert "A1001" in chinese
    assert ("R-9" in english) is (reason is FinishReason.SUCCESS)


@pytest.mark.spec("A3")
def test_edited_and_approved_call_is_told_as_it_really_ran() -> None:
    ran = {"order_id": "A1001", "amount": 200, "reason": "broken"}
    result = {"refund_id": "R-9", "amount": 200, "currency": "CNY", "order_id": "A1001"}
    call = ended(FinishReason.SUCCESS, edited=True, arguments=ran, outcome={"result": result})
    said = answers.statement(call, "en")
    assert "200 CNY was refunded" in said
    assert "amount 299 → 200" in said
    assert told_of_call(call, None)["ran_instead"] == ran


@pytest.mark.spec("A3")
def test_response_of_a_person_becomes_the_result_that_the_model_is_told() -> None:
    call = ended(FinishReason.RESPONDED, outcome={"message": "Offer a voucher instead."})
    assert told_of_call(call, None)["message"] == "Offer a voucher instead."
    assert "Offer a voucher instead." in answers.statement(call, "en")


@pytest.mark.spec("U5", "T13")
def test_approved_read_keeps_no_content_in_what_is_persisted() -> None:
    event = completed_event(FinishReason.SUCCESS, outcome={"result": {"content": "CANARY"}})
    assert "CANARY" not in str(decided(SEARCH, decision_of(event, reads=True)).as_json())


@pytest.mark.parametrize(
    ("reason", "edited", "word"),
    [
        ("success", False, "approve"),
        ("success", True, "edit"),
        ("rejected", False, "reject"),
        ("responded", False, "respond"),
        ("expired", False, "expired"),
        ("cancelled", False, "cancelled"),
        ("superseded", False, "approve"),
    ],
)
def test_decision_of_a_resumed_run_is_named_after_what_the_person_did(reason: str, edited: bool, word: str) -> None:
    assert decision_word(reason, edited=edited) == word


@pytest.mark.spec("T4", "G8")
def test_change_that_was_not_answered_in_time_is_not_said_to_have_failed() -> None:
    late = PlacetError(ErrorCode.TIMEOUT, "The tool gave no answer.")
    for language, doubt, away in (
        ("en", "may have taken effect or not", "not available"),
        ("zh", "可能已经执行", "不可用"),
    ):
        assert doubt in answers.statement(failed(REFUND, late), language)
        assert away in answers.statement(failed(SEARCH, late), language)
