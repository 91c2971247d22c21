"""Deciding outside the model: the port `PolicyDecisionPoint`, its two engines, and what they load."""

from placet.policy.port import Answered, Evaluation, Failure, PolicyDecisionPoint, Reload, Unanswered

__all__ = ["Answered", "Evaluation", "Failure", "PolicyDecisionPoint", "Reload", "Unanswered"]
