# May this person decide this proposal, and may they see it at all?
package placet.approval

import data.placet.eligibility
import data.placet.subject

default decision := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["default_deny"]}

decision := {"allowed": true, "visible": true, "code": null, "reasons": []} if {
	visible
	allowed
} else := {"allowed": false, "visible": true, "code": "permission_denied", "reasons": sort(reasons)} if {
	visible
}

proposal := input.resource.properties

decider := {
	"id": input.subject.id,
	"tenant": input.subject.properties.tenant,
	"active": input.subject.properties.active,
	"roles": input.subject.properties.roles,
}

eligible if eligibility.eligible(decider, proposal)

objections := eligibility.objections(decider, proposal)

# Seen by who asked for it and by who holds a role that may decide it; nobody else learns that it exists.
default visible := false

visible if {
	member
	proposal.requester == input.subject.id
}

visible if {
	member
	eligibility.holds_role(decider, proposal)
}

member if {
	subject.active
	eligibility.same_tenant(decider, proposal)
}

default allowed := false

allowed if input.action.name == "view"

allowed if {
	input.action.name in ["approve", "edit", "respond"]
	eligible
	not counted
}

allowed if {
	input.action.name == "reject"
	eligible
}

# Whoever asked may always withdraw.
allowed if {
	input.action.name == "reject"
	proposal.requester == input.subject.id
}

# One person counts once. An unreadable list counts everybody.
default counted := true

counted := false if {
	is_array(proposal.given)
	not given_already
}

given_already if input.subject.id in proposal.given

reasons contains code if some code in objections

reasons contains "already_approved" if counted

reasons contains "action_unknown" if not action_known

action_known if input.action.name in ["approve", "edit", "reject", "respond", "view"]
