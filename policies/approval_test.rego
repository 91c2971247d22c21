package placet.approval_test

import data.placet.approval
import data.placet.fixtures

without(document, path) := json.patch(document, [{"op": "remove", "path": path}])

test_nothing_is_neither_allowed_nor_visible if {
	approval.decision == {"allowed": false, "visible": false, "code": "not_found", "reasons": ["default_deny"]} with input as {}
}

test_eligible_approver_is_allowed if {
	decision := approval.decision with input as fixtures.decider(fixtures.approver, "approve")
	decision.allowed
}

test_unknown_action_is_refused if {
	decision := approval.decision with input as fixtures.decider(fixtures.approver, "override")
	not decision.allowed
	decision.visible
	"action_unknown" in decision.reasons
}

test_any_missing_fact_refuses if {
	every path in [
		"/subject/id",
		"/subject/properties/tenant",
		"/subject/properties/active",
		"/subject/properties/roles",
		"/action",
		"/resource/properties/tenant",
		"/resource/properties/requester",
		"/resource/properties/obligations",
		"/resource/properties/given",
	] {
		decision := approval.decision with input as without(fixtures.decider(fixtures.approver, "approve"), path)
		not decision.allowed
	}
}
