# The tables agree with each other. A name that leads nowhere would deny, but silently.
package placet.tables_test

import data.tables

test_every_tool_is_complete if {
	every entry in tables.tools {
		entry.domain != ""
		tables.risks[entry.risk].rank
		tables.agreements[entry.agreement].reason
		is_array(entry.facts)
	}
}

test_every_risk_is_complete if {
	every level in ["low", "medium", "high", "critical_funds", "critical_system"] {
		tables.agreements[tables.risks[level].agreement].reason
		is_array(tables.risks[level].mask)
	}
	count(tables.risks) == 5
}

test_every_agreement_can_be_met if {
	every agreement in tables.agreements {
		is_boolean(agreement.asks)
		meetable(agreement)
	}
}

meetable(agreement) if agreement.asks == false

meetable(agreement) if {
	agreement.asks
	agreement.obligations.approvals == 1
	not agreement.obligations.exclude_requester == agreement.obligations.requester_may_approve
	count(agreement.obligations.approver_roles) + to_number(agreement.obligations.requester_may_approve) > 0
	every role in agreement.obligations.approver_roles { tables.grants[role] }
}

test_gates_lead_to_agreements_that_ask if {
	every gate in ["influence", "sensitive_read", "unlisted_write"] {
		tables.agreements[tables.limits[gate].agreement].asks
	}
}

test_critical_risks_ask_somebody_else_with_a_challenge if {
	every level in ["critical_funds", "critical_system"] {
		terms := tables.agreements[tables.risks[level].agreement].obligations
		terms.challenge
		terms.exclude_requester
	}
}

test_every_tool_that_is_named_is_listed if {
	named := ((routed | granted) | capable) | {tool | some tool in tables.limits.never_automatic}
	unlisted := {tool | some tool in named; not tables.tools[tool]}
	count(unlisted) == 0
}

routed contains tool if {
	some _, route in tables.routes
	some tool in route.tools
}

granted contains tool if {
	some _, role in tables.grants
	some tool in role.tools
}

capable contains tool if {
	some _, manifest in tables.manifests
	some tool in manifest.tools
}

test_every_role_is_complete if {
	every role in tables.grants {
		is_array(role.tools)
		is_array(role.admin)
		is_boolean(role.knowledge)
	}
}

test_no_chat_route_holds_the_publish_pair if {
	every route in tables.routes {
		chat_safe(route)
	}
}

chat_safe(route) if route.channels == ["http"]

chat_safe(route) if {
	not route.all_granted
	count({tool | some tool in route.tools; tool in tables.limits.never_automatic}) == 0
}
