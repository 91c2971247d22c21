# Who may agree to a proposal. One rule for the moment of decision and for the moment of commitment.
package placet.eligibility

# What speaks against `person` {id, tenant, active, roles} agreeing in `case`
# {tenant, requester, risk, obligations, authors}. Empty: the person is eligible. A fact that is missing objects too.
objections(person, case) := {code |
	some code in [
		"inactive",
		"other_tenant",
		"requester_unknown",
		"role_missing",
		"not_requester",
		"own_proposal",
		"authored_evidence",
	]
	objects(code, person, case)
}

objects("inactive", person, _) if not is_active(person)

objects("other_tenant", person, case) if not same_tenant(person, case)

objects("requester_unknown", _, case) if not is_string(case.requester)

objects("role_missing", person, case) if {
	not for_requester_only(case)
	not holds_role(person, case)
}

objects("not_requester", person, case) if {
	for_requester_only(case)
	not is_requester(person, case)
}

objects("own_proposal", person, case) if {
	is_requester(person, case)
	not may_approve_own(case)
}

objects("authored_evidence", person, case) if {
	not case.obligations.exclude_authors == false
	not is_no_author(person, case)
}

is_active(person) if person.active == true

same_tenant(person, case) if {
	person.tenant == case.tenant
	person.tenant != ""
}

holds_role(person, case) if {
	some role in person.roles
	role in case.obligations.approver_roles
}

for_requester_only(case) if case.obligations.approver_roles == []

is_requester(person, case) if person.id == case.requester

is_no_author(person, case) if {
	is_array(case.authors)
	not person.id in case.authors
}

# Separation of duties: nobody agrees to their own critical call, whatever the obligations say.
may_approve_own(case) if {
	case.obligations.requester_may_approve == true
	case.obligations.exclude_requester == false
	is_string(case.risk)
	not startswith(case.risk, "critical_")
}
