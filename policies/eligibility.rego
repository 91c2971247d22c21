# Who may agree to a proposal. One rule for the moment of decision and for the moment of commitment.
package placet.eligibility

# Everything must hold for `person` to agree in `case`; `objections` names what does not. A condition belongs into both.
eligible(person, case) if {
	is_active(person)
	same_tenant(person, case)
	names_requester(case)
	fits_role(person, case)
	respects_own(person, case)
	respects_evidence(person, case)
}

fits_role(person, case) if holds_role(person, case)

fits_role(person, case) if {
	for_requester_only(case)
	is_requester(person, case)
}

respects_own(_, case) if may_approve_own(case)

respects_own(person, case) if person.id != case.requester

respects_evidence(_, case) if authors_may_approve(case)

respects_evidence(person, case) if is_no_author(person, case)

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

objects("requester_unknown", _, case) if not names_requester(case)

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
	not authors_may_approve(case)
	not is_no_author(person, case)
}

# Conditions are named: OPA looks arguments up before `not`, so `not f(case.gone)` is undefined and objects to nothing.
names_requester(case) if is_string(case.requester)

authors_may_approve(case) if case.obligations.exclude_authors == false

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
	is_string(person.id)
	is_array(case.authors)
	not is_author(person, case)
}

is_author(person, case) if person.id in case.authors

# Separation of duties: nobody agrees to their own critical call, whatever the obligations say.
may_approve_own(case) if {
	case.obligations.requester_may_approve == true
	case.obligations.exclude_requester == false
	is_string(case.risk)
	not is_critical(case)
}

is_critical(case) if startswith(case.risk, "critical_")
