package placet.authz_test

import data.placet.authz
import data.placet.fixtures

without(document, path) := json.patch(document, [{"op": "remove", "path": path}])

changed(document, path, value) := json.patch(document, [{"op": "replace", "path": path, "value": value}])

test_nothing_is_denied if {
	decision := authz.decision with input as {}
	decision.effect == "deny"
	decision.code == "permission_denied"
}

test_complete_input_is_allowed if {
	decision := authz.decision with input as fixtures.search
	decision.effect == "allow"
}

# Whatever single fact is missing, the answer is a denial.
test_any_missing_fact_denies if {
	every path in [
		"/subject",
		"/subject/id",
		"/subject/properties/tenant",
		"/subject/properties/active",
		"/subject/properties/roles",
		"/action/name",
		"/action/properties/sensitivity",
		"/action/properties/effect",
		"/action/properties/risk",
		"/action/properties/stage",
		"/resource",
		"/resource/properties/tenant",
		"/resource/properties/served_by",
		"/context",
		"/context/args",
		"/context/args/amount",
		"/context/route",
		"/context/channel",
		"/context/agent",
		"/context/manifest",
		"/context/budget",
		"/context/budget/tool_calls",
		"/context/budget/spend",
	] {
		decision := authz.decision with input as without(fixtures.refund, path)
		decision.effect == "deny"
	}
}

test_active_must_be_true_itself if {
	every value in ["true", 1, null, [true], false] {
		decision := authz.decision with input as changed(fixtures.search, "/subject/properties/active", value)
		decision.effect == "deny"
		decision.reasons == ["subject_inactive"]
	}
}

test_identity_is_text_and_not_empty if {
	every path in ["/subject/id", "/subject/properties/tenant"] {
		every value in ["", 1, null, ["alice"], {"id": "alice"}] {
			decision := authz.decision with input as changed(fixtures.search, path, value)
			decision.reasons == ["subject_inactive"]
		}
	}
}

test_unknown_vocabulary_is_denied if {
	every path, value in {
		"/action/properties/risk": "harmless",
		"/action/properties/sensitivity": "whatever",
		"/action/properties/stage": "later",
		"/context/route": "backdoor",
		"/context/channel": "telepathy",
	} {
		decision := authz.decision with input as changed(fixtures.search, path, value)
		decision.effect == "deny"
	}
}

test_denial_carries_no_approval_terms if {
	decision := authz.decision with input as changed(fixtures.refund, "/subject/properties/active", false)
	decision.obligations == {}
}

test_agreement_that_no_table_knows_denies if {
	decision := authz.decision with input as fixtures.search
		with data.tables.tools.search_knowledge.agreement as "handshake"
	decision.effect == "deny"
	decision.reasons == ["default_deny"]
}

test_agreement_that_does_not_say_whether_it_asks_denies if {
	decision := authz.decision with input as fixtures.search
		with data.tables.agreements.none as {"reason": "no_agreement_needed", "obligations": {}}
	decision.effect == "deny"
}

test_fact_that_no_rule_knows_denies if {
	decision := authz.decision with input as fixtures.search
		with data.tables.tools.search_knowledge.facts as ["blessed"]
	decision.effect == "deny"
	decision.reasons == ["not_blessed"]
}

test_commit_without_list_of_approvals_denies if {
	call := changed(without(fixtures.refund, "/context/approvals"), "/action/properties/stage", "commit")
	decision := authz.decision with input as call
	decision.effect == "deny"
}

test_commit_with_approver_without_facts_denies if {
	call := changed(
		changed(fixtures.refund, "/context/approvals", [{"id": "dave"}]),
		"/action/properties/stage", "commit",
	)
	decision := authz.decision with input as call
	decision.effect == "deny"
	decision.reasons == ["approver_inactive", "approver_other_tenant", "approver_role_missing"]
}

test_commit_that_does_not_say_what_it_rests_on_carries_no_approval if {
	call := changed(
		changed(fixtures.refund, "/context/approvals", [object.union(fixtures.approver, {"active": false})]),
		"/action/properties/stage", "commit",
	)
	every path in ["/context/influence", "/context/influence/authors"] {
		decision := authz.decision with input as without(call, path)
		decision.effect == "deny"
	}
}
