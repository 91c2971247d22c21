package placet.eligibility_test

import data.placet.eligibility
import data.placet.fixtures

without(document, path) := json.patch(document, [{"op": "remove", "path": path}])

test_eligible_person_meets_no_objection if {
	count(eligibility.objections(fixtures.approver, fixtures.proposal)) == 0
}

test_any_missing_fact_of_the_person_objects if {
	every path in ["/id", "/tenant", "/active", "/roles"] {
		person := without(fixtures.approver, path)
		proposal := object.union(fixtures.proposal, {"obligations": {"exclude_authors": true}})
		count(eligibility.objections(person, proposal)) > 0
	}
}

test_any_missing_fact_of_the_proposal_objects if {
	every path in ["/tenant", "/requester", "/obligations", "/obligations/approver_roles"] {
		count(eligibility.objections(fixtures.approver, without(fixtures.proposal, path))) > 0
	}
}

test_missing_authors_object_unless_authors_may_approve if {
	"authored_evidence" in eligibility.objections(
		fixtures.approver,
		without(object.union(fixtures.proposal, {"obligations": {"exclude_authors": true}}), "/authors"),
	)
	"authored_evidence" in eligibility.objections(
		fixtures.approver,
		without(without(fixtures.proposal, "/obligations/exclude_authors"), "/authors"),
	)
}

own := object.union(fixtures.proposal, {
	"requester": "dave",
	"risk": "high",
	"obligations": {"requester_may_approve": true, "exclude_requester": false},
})

test_own_proposal_may_be_approved_where_policy_says_so if {
	count(eligibility.objections(fixtures.approver, own)) == 0
}

test_own_proposal_without_its_permission_objects if {
	every path in ["/risk", "/obligations/requester_may_approve", "/obligations/exclude_requester"] {
		eligibility.objections(fixtures.approver, without(own, path)) == {"own_proposal"}
	}
}

test_own_critical_proposal_objects_whatever_is_said if {
	every risk in ["critical_funds", "critical_system", "critical_anything"] {
		eligibility.objections(fixtures.approver, object.union(own, {"risk": risk})) == {"own_proposal"}
	}
}

test_empty_tenants_are_not_the_same_tenant if {
	person := object.union(fixtures.approver, {"tenant": ""})
	"other_tenant" in eligibility.objections(person, object.union(fixtures.proposal, {"tenant": ""}))
}

# What decides and what names the reasons are two lists of the same conditions.
test_eligible_exactly_when_nothing_objects if {
	every person in persons {
		every proposal in proposals {
			agree(person, proposal)
		}
	}
}

agree(person, proposal) if {
	eligibility.eligible(person, proposal)
	count(eligibility.objections(person, proposal)) == 0
}

agree(person, proposal) if {
	not eligibility.eligible(person, proposal)
	count(eligibility.objections(person, proposal)) > 0
}

persons contains object.union(fixtures.approver, change) if {
	some change in [
		{},
		{"active": false},
		{"active": "true"},
		{"tenant": "globex"},
		{"tenant": ""},
		{"roles": []},
		{"roles": ["employee"]},
		{"roles": null},
		{"id": "alice"},
	]
}

persons contains without(fixtures.approver, path) if some path in ["/tenant", "/active", "/roles"]

proposals contains object.union(object.union(fixtures.proposal, change), {"obligations": obligations}) if {
	some change in [{}, {"requester": "dave"}, {"requester": 1}, {"authors": ["dave"]}, {"authors": null}, {"risk": "high"}]
	some obligations in [
		{},
		{"approver_roles": []},
		{"exclude_authors": true},
		{"requester_may_approve": true, "exclude_requester": false},
		{"approver_roles": [], "requester_may_approve": true, "exclude_requester": false},
	]
}

proposals contains without(fixtures.proposal, path) if {
	some path in ["/tenant", "/requester", "/risk", "/authors", "/obligations", "/obligations/exclude_authors"]
}
