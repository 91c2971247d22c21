package placet.terms_test

import data.placet.authz
import data.placet.fixtures
import data.placet.terms

changed(document, path, value) := json.patch(document, [{"op": "replace", "path": path, "value": value}])

test_limit_is_data if {
	decision := authz.decision with input as fixtures.refund
		with data.tables.limits.second_person_above.amount as 100
	decision.obligations.approvals == 2
}

test_open_proposals_are_limited_by_data if {
	decision := authz.decision with input as fixtures.refund
	decision.obligations.open_limit == data.tables.limits.open_proposals.each
	fewer := authz.decision with input as fixtures.refund with data.tables.limits.open_proposals.tools as {"refund_payment": 2}
	fewer.obligations.open_limit == 2
}

test_influence_gate_can_be_switched_off if {
	call := changed(fixtures.note, "/context/influence/untrusted_documents", ["doc-x"])
	gated := authz.decision with input as call
	gated.effect == "require_approval"
	open := authz.decision with input as call with data.tables.limits.influence.gate as false
	open.effect == "allow"
}

test_sensitive_read_gate_can_be_switched_on if {
	call := changed(fixtures.search, "/action/properties/sensitivity", "sensitive_read")
	open := authz.decision with input as call
	open.effect == "allow"
	gated := authz.decision with input as call with data.tables.limits.sensitive_read.gate as true
	gated.effect == "require_approval"
	gated.reasons == ["data_owner_approves"]
}

test_sensitive_read_gate_does_not_soften_what_asks_anyway if {
	action := {"name": "run_readonly_sql", "properties": {
		"sensitivity": "sensitive_read",
		"effect": "none",
		"risk": "critical_system",
		"stage": "propose",
		"domain": "",
	}}
	name := terms.agreement_name with input as changed(fixtures.search, "/action", action)
		with data.tables.limits.sensitive_read.gate as true
	name == "platform"
}

test_sensitive_read_gate_leaves_other_reads_alone if {
	decision := authz.decision with input as fixtures.search with data.tables.limits.sensitive_read.gate as true
	decision.effect == "allow"
}

# A tool that the table does not list gets terms by what it declares.
unlisted(sensitivity, effect, risk) := {"name": "new_tool", "properties": {
	"sensitivity": sensitivity,
	"effect": effect,
	"risk": risk,
	"stage": "propose",
	"domain": "business",
}}

agreement_of(action) := name if {
	name := terms.agreement_name with input as changed(fixtures.note, "/action", action)
}

test_unlisted_tools_get_careful_terms if {
	agreement_of(unlisted("read", "none", "low")) == "none"
	agreement_of(unlisted("read", "none", "medium")) == "none"
	agreement_of(unlisted("write", "reversible", "low")) == "requester"
	agreement_of(unlisted("write", "reversible", "medium")) == "requester"
	agreement_of(unlisted("write", "reversible", "high")) == "requester"
	agreement_of(unlisted("write", "irreversible", "critical_funds")) == "finance"
	agreement_of(unlisted("write", "irreversible", "critical_system")) == "platform"
}

test_unlisted_money_needs_two if {
	call := changed(fixtures.note, "/action", unlisted("write", "irreversible", "critical_funds"))
	found := terms.obligations with input as call
	found.approvals == 2
}

test_unlisted_tool_needs_grant_and_manifest if {
	call := changed(fixtures.note, "/action", unlisted("read", "none", "low"))
	refused := authz.decision with input as call
	refused.code == "tool_not_allowed"
	plugged := authz.decision with input as call
		with data.tables.routes.business_action.tools as ["new_tool"]
		with data.tables.manifests.assistant.tools as ["new_tool"]
		with data.tables.grants.employee.tools as ["new_tool"]
	plugged.effect == "allow"
}

test_manifest_limits_tools_domains_and_effects if {
	tool := authz.decision with input as fixtures.note with data.tables.manifests.assistant.tools as ["search_knowledge"]
	tool.reasons == ["manifest_excludes_tool"]
	domain := authz.decision with input as fixtures.note with data.tables.manifests.assistant.domains as ["knowledge"]
	domain.reasons == ["manifest_excludes_tool"]
	effect := authz.decision with input as fixtures.note with data.tables.manifests.assistant.effects as ["none"]
	effect.reasons == ["manifest_excludes_tool"]
}

test_amounts_are_read_strictly if {
	every text in ["1e3", "-1", " 1", "1 ", "", "0x10", "1,000", ".5", "5.", "1\n", "1234567890123"] {
		not terms.number_of(text)
	}
	terms.number_of("0012.50") == 12.5
	terms.number_of(7) == 7
	not terms.number_of(true)
	not terms.number_of(null)
}
